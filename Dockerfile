# The guard, one process a container:
#   docker build -t refine .
#   docker run -p 127.0.0.1:8000:8000 -v ./refine.toml:/etc/refine.toml:ro --stop-timeout 40 refine --config /etc/refine.toml
# Settings may also come from the environment (REFINE_UPSTREAM=..., REFINE_JUDGE=...); keys always do, none is in the image.
FROM python:3.13-slim AS build
# Further extras of the package, for instance anthropic or ollama for the judge's model, or sqlite, sql, jsonschema.
ARG EXTRAS=server,record,openai,otel,prices,strings
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY judges judges
COPY graphs graphs
COPY refine refine
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin refine
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
# A judge of one's own, `judge = "module:object"`, is imported from here.
WORKDIR /judges
USER 10001
EXPOSE 8000
# SIGTERM: /readyz says no for ready_s, then what is in flight has drain_s; give the container both and 10 s more.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
ENTRYPOINT ["refine", "serve", "--host", "0.0.0.0", "--port", "8000"]
