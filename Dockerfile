# The images of docker-compose.yml and of the chart, one stage each:
#
#   serve    what reads, trains, scores and serves                   docker build --target serve  -t fingerprint .
#   triton   the same with a Triton server for CPUs, from its wheel  docker build --target triton -t fingerprint-triton .
#   train    the same with torch, for trainings on a GPU             docker build --target train  -t fingerprint-train-gpu --build-arg CUDA=13 .
#   triton-gpu   NVIDIA's own server with what the model needs       (docker-compose.gpu.yml)
#
# Every package is one that a lock names with its hash (locks/, `make lock`), ready built: a package index that serves anything else ends
# the build. What installs is left behind: the images have neither pip in their environment nor a compiler. They run as 10001:10001, on a root
# file system that may be read-only; what they write lies in /srv/fingerprint and /tmp.
#
# Build arguments: PYTHON_IMAGE and TRITON_IMAGE, by tag or digest (python@sha256:...: docs/how-to/operate.md has the command that finds it); CUDA,
# empty, 12 or 13: with cuDF and CuPy for it (3.4 GB more); TORCH_INDEX with TRAIN_LOCK: another index for torch, and the lock with its
# hashes (PyTorch's own has a build for CUDA 12).

ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG TRITON_IMAGE=nvcr.io/nvidia/tritonserver:25.10-py3


# --- what is installed: the dependencies, which seldom change, and the project, which does ------------------------------

FROM ${PYTHON_IMAGE} AS locks
WORKDIR /locks
COPY locks ./
ARG CUDA=
ARG TRAIN_LOCK=
# What has a GPU is held to versions of its own. PyPI's torch is for CUDA 13: for CUDA 12 there is no lock of ours with it.
RUN case "$CUDA" in "") gpu= ;; 13) gpu=-gpu ;; 12) gpu=-gpu-cu12 ;; *) echo "CUDA is empty, 12 or 13, not $CUDA" >&2; exit 1 ;; esac \
 && mkdir chosen && cp "serve$gpu.txt" chosen/serve.txt && train=${TRAIN_LOCK:-train$gpu} \
 && { [ ! -e "$train.txt" ] || cp "$train.txt" chosen/train.txt; }

FROM ${PYTHON_IMAGE} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY --from=locks /locks/chosen/serve.txt ./
# Other people's tests are a fifth of it, and are never run here.
RUN python3 -m venv --without-pip /opt/fingerprint \
 && echo /opt/project > /opt/fingerprint/lib/python3.11/site-packages/project.pth \
 && python3 -m pip --python /opt/fingerprint/bin/python install -q --require-hashes -r serve.txt \
 && find /opt/fingerprint -type d -name tests -prune -exec rm -rf {} +

FROM dependencies AS project
COPY locks/build.txt ./
RUN python3 -m venv --without-pip tools && python3 -m pip --python tools/bin/python install -q --require-hashes -r build.txt
COPY pyproject.toml README.md LICENSE ./
COPY fingerprint fingerprint
COPY pipelines pipelines
COPY models models
COPY data data
# Built by locked tools, which fetch none of their own; installed by the environment that runs it.
RUN python3 -m pip --python tools/bin/python wheel -q --no-deps --no-build-isolation --wheel-dir wheel . \
 && python3 -m pip --python /opt/fingerprint/bin/python install -q --no-deps --target /opt/project wheel/*.whl \
 && /opt/fingerprint/bin/python -m compileall -q /opt/project


# --- serve -------------------------------------------------------------------------------------------------------------

FROM ${PYTHON_IMAGE} AS ground
# tini: process 1 hands signals on and buries children
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends tini && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin fingerprint \
 && mkdir -p /srv/fingerprint/models/bank /srv/fingerprint/models/triton /srv/fingerprint/checkpoints /srv/fingerprint/demo \
    /run/secrets/database /run/secrets/triton /run/secrets/grafana \
 && chown -R fingerprint:fingerprint /srv/fingerprint /run/secrets \
 && chmod 0750 /run/secrets/*
COPY --from=dependencies /opt/fingerprint /opt/fingerprint
COPY deploy/healthy.sh /usr/local/bin/healthy
ENV PATH=/opt/project/bin:/opt/fingerprint/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    FINGERPRINT_HEALTH__HOST=0.0.0.0 FINGERPRINT_WEB__HOST=0.0.0.0 FINGERPRINT_BANK_FOLDER=models/bank \
    FINGERPRINT_TRITON__MODEL_REPOSITORY=models/triton
WORKDIR /srv/fingerprint
ENTRYPOINT ["tini", "--", "fingerprint"]
CMD ["--help"]

FROM ground AS serve
COPY --from=project /opt/project /opt/project
USER 10001:10001


# --- triton: the server in the wheel, and the backend's stub for this Python --------------------------------------------

FROM ${PYTHON_IMAGE} AS server
COPY locks/triton-server.txt /build/
# Its libraries are found by where they lie beside it.
RUN python3 -m pip install -q --no-cache-dir --disable-pip-version-check --no-deps --target /wheel --require-hashes -r /build/triton-server.txt \
 && mkdir -p /opt/triton/pytriton \
 && mv /wheel/pytriton/tritonserver /opt/triton/pytriton/ && mv /wheel/nvidia_pytriton.libs /opt/triton/ && rm -rf /wheel \
 && cd /opt/triton/pytriton/tritonserver \
 && mv python_backend_stubs/3.11/triton_python_backend_stub backends/python/ && rm -rf python_backend_stubs

FROM ground AS triton
# The stub is linked to this Python's own library; a Python that came without it is Debian's.
RUN ldconfig -p | grep -q libpython3.11 || { apt-get update -qq && apt-get install -y -qq --no-install-recommends libpython3.11 \
 && rm -rf /var/lib/apt/lists/*; }
COPY --from=server /opt/triton /opt/triton
COPY deploy/triton.sh /usr/local/bin/serve-triton
COPY --from=project /opt/project /opt/project
ENV PATH=$PATH:/opt/triton/pytriton/tritonserver/bin OMP_NUM_THREADS=1 \
    TRITON_BACKENDS=/opt/triton/pytriton/tritonserver/backends
USER 10001:10001
EXPOSE 8001 8002
ENTRYPOINT ["tini", "--", "serve-triton"]
CMD []


# --- train -------------------------------------------------------------------------------------------------------------

FROM ground AS train
COPY --from=locks /locks/chosen /locks
ARG TORCH_INDEX=
# One layer, the large one: copied from a stage of its own it would lie on the disk twice. A second index can bring nothing that the
# lock does not name by its hash.
RUN [ -e /locks/train.txt ] || { echo "PyPI's torch is for CUDA 13: for CUDA 12 name TORCH_INDEX and TRAIN_LOCK" >&2; exit 1; } \
 && /usr/local/bin/python3 -m pip --python /opt/fingerprint/bin/python install -q --no-cache-dir --disable-pip-version-check \
    --require-hashes ${TORCH_INDEX:+--extra-index-url $TORCH_INDEX} -r /locks/train.txt
COPY --from=project /opt/project /opt/project
USER 10001:10001


# --- triton-gpu: NVIDIA's server, and what its Python backend imports: the project, with torch ---------------------------

FROM ${TRITON_IMAGE} AS triton-gpu
USER root
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv tini && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin fingerprint \
 && mkdir -p /srv/fingerprint/models/bank /srv/fingerprint/models/triton /run/secrets/triton \
 && chown -R fingerprint:fingerprint /srv/fingerprint /run/secrets \
 && python3 -m venv /opt/fingerprint
WORKDIR /build
COPY locks/build.txt locks/triton-gpu.txt ./
# With CuPy everything stays on the device; it shares its libraries with torch.
RUN /opt/fingerprint/bin/pip install -q --no-cache-dir --disable-pip-version-check --require-hashes -r triton-gpu.txt \
 && python3 -m venv tools && tools/bin/pip install -q --disable-pip-version-check --require-hashes -r build.txt
COPY pyproject.toml README.md LICENSE ./
COPY fingerprint fingerprint
COPY pipelines pipelines
COPY models models
COPY data data
RUN tools/bin/pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir wheel . \
 && /opt/fingerprint/bin/pip install -q --disable-pip-version-check --no-deps wheel/*.whl && rm -rf /build
COPY deploy/healthy.sh /usr/local/bin/healthy
COPY deploy/triton.sh /usr/local/bin/serve-triton
ENV PATH=/opt/fingerprint/bin:$PATH HOME=/tmp FINGERPRINT_BANK_FOLDER=models/bank FINGERPRINT_TRITON__MODEL_REPOSITORY=models/triton
WORKDIR /srv/fingerprint
USER 10001:10001
EXPOSE 8001 8002
ENTRYPOINT ["tini", "--", "serve-triton"]
CMD []
