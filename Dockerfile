# syntax=docker/dockerfile:1
# One image for all of Muniment's processes; compose.yaml and deploy/kubernetes say which one a container runs.
#
#   docker build -t muniment .                                                    CPU
#   docker build -t muniment:cuda --build-arg EXTRAS=cpu,torch,gpu,traces .       NVIDIA cards
#
# The CUDA libraries come with torch's wheels; of the host, only its driver is used, by way of the NVIDIA container
# toolkit. TORCH_INDEX names another index for torch, such as one with the build for an older driver.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
ARG EXTRAS=cpu,traces
ARG TORCH_INDEX=
WORKDIR /src
RUN python -m venv /opt/muniment
ENV PATH=/opt/muniment/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY pyproject.toml README.md LICENSE ./
COPY pipeline pipeline
COPY workers workers
COPY migrations migrations
# pip takes an empty variable for none.
RUN PIP_EXTRA_INDEX_URL="$TORCH_INDEX" pip install ".[${EXTRAS}]" \
    && python -m compileall -q /opt/muniment/lib

FROM python:${PYTHON}-slim-bookworm
# Not root, and no name that the host could have: files of secrets and weights have to be readable by this number.
RUN groupadd --gid 10001 muniment && useradd --uid 10001 --gid muniment --no-create-home --shell /usr/sbin/nologin muniment \
    && install -d -o muniment -g muniment -m 0700 /var/lib/muniment /locks
COPY --from=build /opt/muniment /opt/muniment
# The root file system may be read-only: what is written goes to /tmp and, for device locks and logs, to MUNIMENT_HOME.
ENV PATH=/opt/muniment/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONSAFEPATH=1 \
    MUNIMENT_HOME=/var/lib/muniment \
    MUNIMENT_LOG__JSON_LINES=true
WORKDIR /var/lib/muniment
USER 10001:10001
STOPSIGNAL SIGTERM
CMD ["muniment", "--help"]
