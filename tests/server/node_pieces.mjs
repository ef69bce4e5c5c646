// The official clients for Node, of OpenAI and Anthropic, read answers in pieces from the guard at the given root; prints JSON.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const root = process.argv[2];
const openai = new OpenAI({ baseURL: `${root}/v1`, apiKey: "none", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: root, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Count." }];
const results = [];

const chunks = [];
for await (const chunk of await openai.chat.completions.create({ model: "m", messages, stream: true })) chunks.push(chunk);
results.push({
  pieces: chunks.map((chunk) => chunk.choices[0]?.delta.content).filter(Boolean),
  end: chunks.map((chunk) => chunk.choices[0]?.finish_reason).filter(Boolean),
  ids: new Set(chunks.map((chunk) => chunk.id)).size,
  passed: chunks.at(-1).refine.passed,
});
const completion = await openai.chat.completions.stream({ model: "m", messages }).finalChatCompletion();
results.push({ pieces: [completion.choices[0].message.content], end: [completion.choices[0].finish_reason] });

const deltas = [];
const responding = openai.responses.stream({ model: "m", input: "Count." });
responding.on("response.output_text.delta", (event) => deltas.push(event.delta));
const response = await responding.finalResponse();
results.push({ pieces: deltas, whole: response.output_text, end: [response.incomplete_details?.reason ?? response.status] });

const texts = [];
const speaking = anthropic.messages.stream({ model: "m", max_tokens: 99, messages });
speaking.on("text", (text) => texts.push(text));
const message = await speaking.finalMessage();
results.push({ pieces: texts, whole: message.content[0].text, end: [message.stop_reason] });

console.log(JSON.stringify(results));
