// OpenAI's client for Node, the AI SDK and the Agents SDK, against the guard at the given base URL; prints one JSON object.
import OpenAI from "openai";
import { generateText, streamText } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent, run, setDefaultOpenAIClient, setTracingDisabled, tool } from "@openai/agents";

const baseURL = process.argv[2];
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const chat = (content, fields = {}) =>
  client.chat.completions.create({ model: "m", messages: [{ role: "user", content }], ...fields });
const results = {};

results.whole = (await chat("What?")).choices[0].message.content;
results.streamed = "";
for await (const chunk of await chat("slowly", { stream: true })) results.streamed += chunk.choices[0].delta.content;
const helper = client.chat.completions.stream({ model: "m", messages: [{ role: "user", content: "slowly" }] });
results.helper = (await helper.finalChatCompletion()).choices[0].message.content;
results.responses = (await client.responses.create({ model: "m", input: "What?" })).output_text;
results.responsesStreamed = (await client.responses.stream({ model: "m", input: "What?" }).finalResponse()).output_text;

const sdk = createOpenAI({ baseURL, apiKey: "none" });
const models = { responses: sdk("m"), chat: sdk.chat("m"), any: createOpenAICompatible({ name: "any", baseURL })("m") };
for (const [name, model] of Object.entries(models)) {
  results[`sdk ${name}`] = (await generateText({ model, prompt: "What?", maxRetries: 0 })).text;
  results[`sdk ${name} streamed`] = await streamText({ model, prompt: "slowly", maxRetries: 0 }).text;
}

setDefaultOpenAIClient(client);
setTracingDisabled(true);
const parameters = { type: "object", properties: {}, required: [], additionalProperties: false };
const look = tool({ name: "look", description: "Look it up.", parameters, execute: async () => "Found it." });
const agent = new Agent({ name: "assistant", instructions: "Be kind.", model: "m", tools: [look] });
results.agent = (await run(agent, "What?")).finalOutput;
results["agent with tool"] = (await run(agent, "What? Do use the tool.")).finalOutput;
const running = await run(agent, "What? Do use the tool.", { stream: true });
await running.completed;
results["agent streamed"] = running.finalOutput;

const errors = [];
for (const question of ["error", "error, slowly"]) {
  try {
    for await (const _ of await chat(question, { stream: true })) continue;
  } catch (error) {
    errors.push([error.constructor.name, error.message.includes("too many")]);
  }
}
console.log(JSON.stringify({ results, errors }));
