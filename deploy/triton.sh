#!/bin/sh
# Serve the model repository with Triton under explicit control: only callers with the key load models. Loads the bank's model if there is one.
# Arguments go to the server. Settings: FINGERPRINT_TRITON__MODEL_REPOSITORY, FINGERPRINT_TRITON__CONTROL_KEY_FILE (NAME=VALUE); for TLS
# TRITON_TLS_CERTIFICATE and TRITON_TLS_KEY (PEM files), and TRITON_TLS_CA: then callers need a certificate of that authority, too.
set -eu
repository=${FINGERPRINT_TRITON__MODEL_REPOSITORY:-models/triton}
key=$(cat "$FINGERPRINT_TRITON__CONTROL_KEY_FILE")
mkdir -p "$repository" 2>/dev/null || true    # its volume may be read-only here, and created by another container
until [ -d "$repository" ]; do sleep 1; done
load=; [ -e "$repository/fingerprint/config.pbtxt" ] && load=--load-model=fingerprint
tls=
if [ -n "${TRITON_TLS_CERTIFICATE:-}" ]; then
  tls="--grpc-use-ssl=true --grpc-server-cert=$TRITON_TLS_CERTIFICATE --grpc-server-key=$TRITON_TLS_KEY"
  [ -z "${TRITON_TLS_CA:-}" ] || tls="$tls --grpc-use-ssl-mutual=true --grpc-root-cert=$TRITON_TLS_CA"
fi
# Without the key callers may only infer and ask for readiness. The server takes the key as an argument only, so it is visible in the
# container's process list, to users who could read the file as well.
guarded=model-repository,model-config,shared-memory,statistics,trace,logging
# HTTP serves this container's health check only; metrics have an address of their own for Prometheus. An error in a model must not
# end a server that could load the next one; one version is loaded at a time, because a load that fails beside another ends it
# (docs/explanation/triton.md).
# shellcheck disable=SC2086  # $load and $tls are several words, or none
exec tritonserver --model-repository="$repository" --model-control-mode=explicit $load --exit-on-error=false \
  --model-load-thread-count=1 --disable-auto-complete-config --strict-readiness=true \
  --allow-gpu-metrics="${TRITON_GPU_METRICS:-false}" \
  ${TRITON_BACKENDS:+--backend-directory="$TRITON_BACKENDS"} --http-address=127.0.0.1 --metrics-address=0.0.0.0 $tls \
  --grpc-restricted-protocol="$guarded:$key" --http-restricted-api="$guarded:$key" "$@"
