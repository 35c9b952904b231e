#!/bin/sh
# Triton over the model repository, told what to load by whoever has the key; with the bank's model loaded if there is one already.
# Arguments go to the server. Settings: FINGERPRINT_TRITON__REPOSITORY, FINGERPRINT_TRITON__KEY_FILE (NAME=VALUE).
set -eu
repository=${FINGERPRINT_TRITON__REPOSITORY:-models/triton}
key=$(cat "$FINGERPRINT_TRITON__KEY_FILE")
mkdir -p "$repository" 2>/dev/null || true    # its volume may be read-only here, and made by somebody else
until [ -d "$repository" ]; do sleep 1; done
load=; [ -e "$repository/fingerprint/config.pbtxt" ] && load=--load-model=fingerprint
# An error in a model must not end a server that could load the next one; models get shared memory of their own.
exec tritonserver --model-repository="$repository" --model-control-mode=explicit $load --exit-on-error=false \
  --disable-auto-complete-config --allow-gpu-metrics="${TRITON_GPU_METRICS:-false}" --strict-readiness=true \
  ${TRITON_BACKENDS:+--backend-directory="$TRITON_BACKENDS"} \
  --grpc-restricted-protocol="model-repository:$key" --http-restricted-api="model-repository:$key" "$@"
