#!/bin/sh
# Triton over the model repository, told what to load by whoever has the key; with the bank's model loaded if there is one already.
# Arguments go to the server. Settings: FINGERPRINT_TRITON__MODEL_REPOSITORY, FINGERPRINT_TRITON__CONTROL_KEY_FILE (NAME=VALUE); for TLS
# TRITON_TLS_CERTIFICATE and TRITON_TLS_KEY (PEM files), and TRITON_TLS_CA: then callers need a certificate of that authority, too.
set -eu
repository=${FINGERPRINT_TRITON__MODEL_REPOSITORY:-models/triton}
key=$(cat "$FINGERPRINT_TRITON__CONTROL_KEY_FILE")
mkdir -p "$repository" 2>/dev/null || true    # its volume may be read-only here, and made by somebody else
until [ -d "$repository" ]; do sleep 1; done
load=; [ -e "$repository/fingerprint/config.pbtxt" ] && load=--load-model=fingerprint
tls=
if [ -n "${TRITON_TLS_CERTIFICATE:-}" ]; then
  tls="--grpc-use-ssl=true --grpc-server-cert=$TRITON_TLS_CERTIFICATE --grpc-server-key=$TRITON_TLS_KEY"
  [ -z "${TRITON_TLS_CA:-}" ] || tls="$tls --grpc-use-ssl-mutual=true --grpc-root-cert=$TRITON_TLS_CA"
fi
# Without the key a caller measures, and asks what is ready: nothing else. The server takes the key as an argument only, so whoever sees
# the container's processes sees it; they could read the file as well.
guarded=model-repository,model-config,shared-memory,statistics,trace,logging
# HTTP is for the health check of this container: it hears nobody else. Metrics would follow it there, and Prometheus is elsewhere. An error in a model must not end a server that could load the
# next one; models get shared memory of their own.
# shellcheck disable=SC2086  # $load and $tls are several words, or none
exec tritonserver --model-repository="$repository" --model-control-mode=explicit $load --exit-on-error=false \
  --disable-auto-complete-config --allow-gpu-metrics="${TRITON_GPU_METRICS:-false}" --strict-readiness=true \
  ${TRITON_BACKENDS:+--backend-directory="$TRITON_BACKENDS"} --http-address=127.0.0.1 --metrics-address=0.0.0.0 $tls \
  --grpc-restricted-protocol="$guarded:$key" --http-restricted-api="$guarded:$key" "$@"
