# The guard in a container: docker build -t refine . && docker run -p 8000:8000 -v ./refine.toml:/etc/refine.toml:ro refine
FROM python:3.13-slim AS build
WORKDIR /build
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md LICENSE ./
COPY judges judges
COPY graphs graphs
COPY refine refine
RUN python -m build --wheel --outdir /wheels

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN wheel=$(ls /wheels/*.whl) \
    && pip install --no-cache-dir "${wheel}[server,record,openai,strings]" \
    && rm -r /wheels \
    && useradd --system --uid 10001 --no-create-home refine
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["refine", "serve", "--host", "0.0.0.0"]
CMD ["--config", "/etc/refine.toml"]
