{{/* Names, labels, and what every pod has. Each takes (dict "root" $ "component" "stream"), the first three the root alone. */}}

{{- define "fingerprint.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- default (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Each component's own: a role that a cloud gives to one is not the others'. */}}
{{- define "fingerprint.serviceAccount" -}}
{{- $own := default (dict) (default (dict) (get .root.Values .component)).serviceAccount -}}
{{- default (.root.Values.serviceAccount.create | ternary (include "fingerprint.name" .) "default") $own.name -}}
{{- end -}}

{{- define "fingerprint.secret" -}}
{{- default (printf "%s-secrets" (include "fingerprint.fullname" .)) .Values.secrets.existingSecret -}}
{{- end -}}

{{- define "fingerprint.name" -}}
{{ include "fingerprint.fullname" .root }}-{{ .component }}
{{- end -}}

{{- define "fingerprint.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Not empty for a component that is not switched off. */}}
{{- define "fingerprint.runs" -}}
{{- $own := default (dict) (get .root.Values .component) -}}
{{- if or (not (hasKey $own "enabled")) $own.enabled }}yes{{ end -}}
{{- end -}}

{{- define "fingerprint.labels" -}}
{{ include "fingerprint.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fingerprint
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "fingerprint.metadata" -}}
name: {{ include "fingerprint.name" . }}
namespace: {{ .root.Release.Namespace | quote }}
labels: {{- include "fingerprint.labels" . | nindent 2 }}
{{- end -}}

{{/* Of our three images by name ("serve"), or of another's: (dict "root" $ "image" .Values.kafka.image). */}}
{{- define "fingerprint.image" -}}
{{- $ours := kindIs "string" .image -}}
{{- $image := $ours | ternary (get .root.Values.image (toString .image)) .image -}}
{{- $registry := and $ours .root.Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .root.Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{/* What the restricted Pod Security level asks of a container, and a read-only root file system. */}}
{{- define "fingerprint.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* ... and of a pod: (dict "uid" 999). */}}
{{- define "fingerprint.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .uid }}
runAsGroup: {{ .uid }}
fsGroup: {{ .uid }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{/* Labels and annotations of a pod of ours; another configuration makes another pod. */}}
{{- define "fingerprint.podMetadata" -}}
{{- $own := default (dict) (get .root.Values .component) -}}
labels:
  {{- include "fingerprint.labels" . | nindent 2 }}
  {{- with $own.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
annotations:
  checksum/config: {{ include (print .root.Template.BasePath "/configmap.yaml") .root | sha256sum }}
  {{- with $own.podAnnotations }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{/* The part of a pod that does not depend on what runs in it. Takes "uid" where it is not one of ours. */}}
{{- define "fingerprint.pod" -}}
{{- $own := default (dict) (get .root.Values .component) -}}
{{- $gpu := eq "yes" (include "fingerprint.gpu" .) -}}
serviceAccountName: {{ include "fingerprint.serviceAccount" . }}
automountServiceAccountToken: false
# the address of a Service named fingerprint-... or kafka-... would be taken for a setting
enableServiceLinks: false
terminationGracePeriodSeconds: {{ default 60 $own.terminationGracePeriodSeconds }}
securityContext: {{- include "fingerprint.podSecurity" (dict "uid" (default 10001 .uid)) | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if and $gpu .root.Values.gpu.runtimeClassName }}
runtimeClassName: {{ .root.Values.gpu.runtimeClassName }}
{{- end }}
{{- with merge (dict) (default (dict) $own.nodeSelector) ($gpu | ternary .root.Values.gpu.nodeSelector (dict)) }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat (default (list) $own.tolerations) ($gpu | ternary .root.Values.gpu.tolerations (list)) }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Replicas in different zones and on different nodes, where there are some. */}}
{{- define "fingerprint.spread" -}}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: { matchLabels: { {{- include "fingerprint.selector" $ | replace "\n" ", " }} } }
  {{- end }}
{{- end -}}

{{/* Not empty where a component asks for a GPU. */}}
{{- define "fingerprint.gpu" -}}
{{- $gpu := (default (dict) (get .root.Values .component)).gpu -}}
{{- if and $gpu $gpu.count }}yes{{ end -}}
{{- end -}}

{{- define "fingerprint.resources" -}}
{{- $own := default (dict) (get .root.Values .component) -}}
{{- $resources := deepCopy $own.resources -}}
{{- if include "fingerprint.gpu" . -}}
{{- $name := default .root.Values.gpu.resource $own.gpu.resource -}}
{{- $_ := set $resources "limits" (merge (dict $name $own.gpu.count) (default (dict) $resources.limits)) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* Resources of an init container: small, or the program's own where its requests equal its limits. The pod then has QoS class
Guaranteed, which exclusive CPUs and memory of one NUMA node need. */}}
{{- define "fingerprint.initResources" -}}
{{- $own := (default (dict) (get .root.Values .component)).resources | default dict -}}
{{- $requests := dict "cpu" (get ($own.requests | default dict) "cpu" | toString) "memory" (get ($own.requests | default dict) "memory" | toString) -}}
{{- $limits := dict "cpu" (get ($own.limits | default dict) "cpu" | toString) "memory" (get ($own.limits | default dict) "memory" | toString) -}}
{{- if and (deepEqual $requests $limits) $requests.cpu $requests.memory -}}
{{- toYaml (dict "requests" $requests "limits" $limits) -}}
{{- else -}}
{{- toYaml (dict "requests" (dict "cpu" .cpu "memory" .memory) "limits" (dict "memory" .limit)) -}}
{{- end -}}
{{- end -}}

{{/* A container's image and guards. Takes "image", one of ours by name or another's; with a GPU it is another where there is one. */}}
{{- define "fingerprint.container" -}}
{{- $image := default "serve" .image -}}
{{- if and (include "fingerprint.gpu" .) (hasKey .root.Values.image (printf "%vGpu" $image)) }}{{ $image = printf "%vGpu" $image }}{{ end -}}
image: {{ include "fingerprint.image" (dict "root" .root "image" $image) }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext: {{- include "fingerprint.containerSecurity" . | nindent 2 }}
{{- end -}}

{{/* Wiring from the ConfigMap; what is a component's own after it. */}}
{{- define "fingerprint.env" -}}
envFrom:
  - configMapRef: { name: {{ include "fingerprint.fullname" .root }}-wiring }
env:
  {{- if eq .component "stream" }}
  # a name that outlives a restart: its partitions wait for it
  - name: FINGERPRINT_KAFKA__GROUP_INSTANCE_ID
    valueFrom: { fieldRef: { fieldPath: metadata.name } }
  {{- end }}
  {{- if has "triton-control" .secrets }}
  - name: FINGERPRINT_TRITON__CONTROL_KEY_FILE
    value: /run/secrets/fingerprint/triton-control
  {{- end }}
  - name: TMPDIR
    value: /tmp
  {{- with concat .root.Values.extraEnv (default (list) (default (dict) (get .root.Values .component)).extraEnv) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The claim with tables of addresses, for the programs that look addresses up. */}}
{{- define "fingerprint.addressTables" -}}
{{- if and .models (has .component (list "stream" "train" "web")) }}{{ .root.Values.addressTables.existingClaim }}{{ end -}}
{{- end -}}

{{/* Mounts and volumes of a program: settings, /tmp, its secrets, and "models" or "checkpoints" as ro or rw. */}}
{{- define "fingerprint.mounts" -}}
volumeMounts:
  - { name: tmp, mountPath: /tmp }
  - { name: settings, mountPath: /etc/fingerprint, readOnly: true }
  {{- if .secrets }}
  - { name: secrets, mountPath: /run/secrets/fingerprint, readOnly: true }
  {{- end }}
  {{- with .models }}
  - { name: models, mountPath: /srv/fingerprint/models, readOnly: {{ eq . "ro" }} }
  {{- end }}
  {{- if and .checkpoints (not .root.Values.checkpoints.url) }}
  - { name: checkpoints, mountPath: /srv/fingerprint/checkpoints }
  {{- end }}
  {{- if include "fingerprint.addressTables" . }}
  - { name: address-tables, mountPath: /data, readOnly: true }
  {{- end }}
  {{- range $place, $mount := (default (dict) (get .root.Values .component)).secretMounts }}
  - { name: secret-{{ $place }}, mountPath: {{ $mount.path }}, readOnly: true }
  {{- end }}
{{- end -}}

{{- define "fingerprint.volumes" -}}
volumes:
  - name: tmp
    emptyDir: {}
  - name: settings
    configMap: { name: {{ include "fingerprint.fullname" .root }}-settings }
  {{- with .secrets }}
  - name: secrets
    secret:
      secretName: {{ include "fingerprint.secret" $.root }}
      defaultMode: 0440
      items:
        {{- range . }}
        - { key: {{ . }}, path: {{ . }} }
        {{- end }}
  {{- end }}
  {{- if .models }}
  - name: models
    persistentVolumeClaim: { claimName: {{ default (printf "%s-models" (include "fingerprint.fullname" .root)) .root.Values.models.existingClaim }} }
  {{- end }}
  {{- if and .checkpoints (not .root.Values.checkpoints.url) }}
  - name: checkpoints
    persistentVolumeClaim: { claimName: {{ default (printf "%s-checkpoints" (include "fingerprint.fullname" .root)) .root.Values.checkpoints.existingClaim }} }
  {{- end }}
  {{- with include "fingerprint.addressTables" . }}
  - name: address-tables
    persistentVolumeClaim: { claimName: {{ . }}, readOnly: true } # nor is its owner changed to ours
  {{- end }}
  {{- range $place, $mount := (default (dict) (get .root.Values .component)).secretMounts }}
  - name: secret-{{ $place }} # not as the Secret, which may have the name of another volume, or two places
    secret: { secretName: {{ $mount.secret }}, defaultMode: 0440 }
  {{- end }}
{{- end -}}

{{/* /livez and /readyz. A start may take as long as restoring state does: ten minutes. */}}
{{- define "fingerprint.probes" -}}
startupProbe:
  httpGet: { path: /livez, port: {{ .port }} }
  periodSeconds: 3
  timeoutSeconds: 5
  failureThreshold: 200
livenessProbe:
  httpGet: { path: /livez, port: {{ .port }} }
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: {{ .port }} }
  periodSeconds: 5
  timeoutSeconds: 10
{{- end -}}

{{/* Before ingest and stream start: idempotent, so the first to start creates the topics. An init container and no hook of Helm's: it
also runs when a broker was set up again, when the chart is applied without Helm, and `helm install --wait` cannot wait for
pods that wait for a hook. */}}
{{- define "fingerprint.topics" -}}
{{- $with := dict "root" .root "component" "topics" "secrets" list -}}
{{- $logins := dict "root" .root "component" .component "secrets" list -}}
initContainers:
  - name: topics
    {{- include "fingerprint.container" $with | nindent 4 }}
    args:
      - topics
      - create
      - --partitions={{ .root.Values.topics.partitions }}
      {{- with .root.Values.topics.replicas }}
      - --replicas={{ . }}
      {{- end }}
      {{- with .root.Values.topics.retentionDays }}
      - --retention-days={{ . }}
      {{- end }}
      - --wait=300
    {{- include "fingerprint.env" $with | nindent 4 }}
    {{- include "fingerprint.mounts" $logins | nindent 4 }}
    resources: {{- include "fingerprint.initResources" (dict "root" .root "component" .component "cpu" "50m" "memory" "128Mi" "limit" "512Mi") | nindent 6 }}
{{- end -}}

{{/* With the namespace: the broker gives this address to clients of other namespaces, too (producers). */}}
{{- define "fingerprint.bootstrapServers" -}}
{{- if .Values.kafka.enabled }}{{ include "fingerprint.fullname" . }}-kafka.{{ .Release.Namespace }}.svc:9092{{ else }}{{ join "," .Values.kafka.bootstrapServers }}{{ end -}}
{{- end -}}

{{- define "fingerprint.database" -}}
{{- $own := printf "postgresql://fingerprint@%s-postgres/fingerprint?password_file=/run/secrets/fingerprint/database-password" (include "fingerprint.fullname" .) -}}
{{- .Values.postgres.enabled | ternary $own .Values.database.url -}}
{{- end -}}

{{/* Where browsers find the alert queue. */}}
{{- define "fingerprint.publicUrl" -}}
{{- $ingress := .Values.web.ingress -}}
{{- if .Values.web.publicUrl }}{{ .Values.web.publicUrl }}
{{- else if $ingress.enabled }}http{{ if $ingress.tlsSecret }}s{{ end }}://{{ $ingress.host }}
{{- end -}}
{{- end -}}

{{/* What the environment of every program says: it goes before the settings file. */}}
{{- define "fingerprint.wiring" -}}
FINGERPRINT_SETTINGS_FILE: /etc/fingerprint/settings.toml
FINGERPRINT_BANK_FOLDER: models/bank
FINGERPRINT_HEALTH__HOST: "0.0.0.0"
FINGERPRINT_HEALTH__PORT: "9464"
FINGERPRINT_KAFKA__BOOTSTRAP_SERVERS: {{ include "fingerprint.bootstrapServers" . | quote }}
FINGERPRINT_DATABASE__URL: {{ include "fingerprint.database" . | quote }}
FINGERPRINT_CHECKPOINTS__URL: {{ default "checkpoints" .Values.checkpoints.url | quote }}
FINGERPRINT_TRITON__MODEL_REPOSITORY: models/triton
{{- if .Values.triton.enabled }}
FINGERPRINT_TRITON__URL: {{ include "fingerprint.fullname" . }}-triton:8001
{{- end }}
{{- with dig "bank" "verify_key_files" (list) .Values.settings }}
FINGERPRINT_BANK__VERIFY_KEY_FILES: {{ join "," . | quote }} # Triton's model reads no settings file
{{- end }}
FINGERPRINT_WEB__HOST: "0.0.0.0"
FINGERPRINT_WEB__PORT: "8080"
{{- with include "fingerprint.publicUrl" . }}
FINGERPRINT_WEB__PUBLIC_URL: {{ . | quote }}
{{- end }}
{{- if .Values.monitoring.serviceMonitor.enabled }}
FINGERPRINT_WEB__SERVE_HEALTH: "true"
{{- end }}
FINGERPRINT_WEB__TRUSTED_PROXIES: {{ .Values.web.trustedProxies | int | quote }}
{{- end -}}

{{/* A setting that the environment goes before would be ignored: it is refused, with the value that stands for it. */}}
{{- define "fingerprint.checkSettings" -}}
{{- $values := dict "kafka.bootstrap_servers" "kafka.bootstrapServers" "database.url" "database.url" "checkpoints.url" "checkpoints.url" "triton.url" "triton.enabled (false, where the server is your own)"
  "web.public_url" "web.publicUrl" "web.trusted_proxies" "web.trustedProxies" "web.serve_health" "monitoring.serviceMonitor.enabled" -}}
{{- range $name, $_ := omit (include "fingerprint.wiring" . | fromYaml) "FINGERPRINT_BANK__VERIFY_KEY_FILES" -}}
{{- $path := trimPrefix "FINGERPRINT_" $name | lower | splitList "__" -}}
{{- if and (eq (len $path) 2) (not (kindIs "invalid" (dig (first $path) (last $path) nil $.Values.settings))) -}}
{{- $setting := join "." $path -}}
{{- $instead := hasKey $values $setting | ternary (printf "say it in %s" (get $values $setting)) "leave it out: volumes, probes and Services rest on the chart's own" -}}
{{- fail (printf "settings.%s would not be read, because the chart says it to every program in the environment: %s" $setting $instead) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Services take no other names; a release may be called 7 or a.b. */}}
{{- define "fingerprint.checkNames" -}}
{{- $name := include "fingerprint.fullname" . -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) }}{{ fail (printf "%q cannot be a Service's name, and all names begin with it: give fullnameOverride one of a-z, 0-9 and - that begins with a letter" $name) }}{{ end -}}
{{- end -}}

{{/* Not of the schema: it would print the password, and could not say why. */}}
{{- define "fingerprint.checkDatabase" -}}
{{- $url := .Values.database.url -}}
{{- if not (regexMatch "^(|postgres(ql)?://.+)$" $url) }}{{ fail "database.url is not one of PostgreSQL: postgresql://USER@HOST/DATABASE?password_file=/run/secrets/fingerprint/database-password" }}{{ end -}}
{{- if or (regexMatch "^[a-z]+://[^@/?]*:[^@?]*@" $url) (regexMatch "[?&](ssl)?password=" $url) }}{{ fail "database.url holds a password, and becomes a ConfigMap: put it into the Secret of secrets.existingSecret as database-password, and end the URL with ?password_file=/run/secrets/fingerprint/database-password" }}{{ end -}}
{{- end -}}

{{/* What would go wrong silently or late is said at once. */}}
{{- define "fingerprint.check" -}}
{{- $v := .Values -}}
{{- include "fingerprint.checkNames" . -}}
{{- include "fingerprint.checkDatabase" . -}}
{{- include "fingerprint.checkSettings" . -}}
{{- range $name, $image := merge (dict "kafka" $v.kafka.image "postgres" $v.postgres.image) (omit $v.image "registry" "pullPolicy" "pullSecrets") -}}
{{- if and (eq (toString $image.tag) "latest") (not $image.digest) }}{{ fail (printf "%s is latest, which names another image tomorrow, and a node keeps an image whose tag it has: name a commit or a digest" (has $name (list "kafka" "postgres") | ternary (printf "%s.image.tag" $name) (printf "image.%s.tag" $name))) }}{{ end -}}
{{- end -}}
{{- if not (or $v.kafka.enabled $v.kafka.bootstrapServers) }}{{ fail "kafka.enabled is false: name your own brokers in kafka.bootstrapServers" }}{{ end -}}
{{- if and $v.kafka.enabled $v.kafka.bootstrapServers }}{{ fail "kafka.bootstrapServers are not asked while kafka.enabled is true: set it to false" }}{{ end -}}
{{- if not (or $v.postgres.enabled $v.database.url) }}{{ fail "postgres.enabled is false: name your own server in database.url" }}{{ end -}}
{{- if and $v.postgres.enabled $v.database.url }}{{ fail "database.url is not used while postgres.enabled is true: set it to false" }}{{ end -}}
{{- if and $v.web.ingress.enabled (not $v.web.ingress.host) }}{{ fail "web.ingress needs a host" }}{{ end -}}
{{- if and $v.web.ingress.enabled (not (int $v.web.trustedProxies)) }}{{ fail "web.trustedProxies is 0 behind an ingress: all people would have its address, and a few bad logins of one slow down all. Set it to the proxies in front; an ingress is 1" }}{{ end -}}
{{- if $v.topics.create -}}
{{- $most := $v.stream.autoscaling.enabled | ternary $v.stream.autoscaling.maxReplicas $v.stream.replicas | int -}}
{{- if gt $most (int $v.topics.partitions) }}{{ fail (printf "%d scorers cannot share %d partitions: raise topics.partitions, or have fewer" $most (int $v.topics.partitions)) }}{{ end -}}
{{- end -}}
{{- if gt (int $v.stream.autoscaling.minReplicas) (int $v.stream.autoscaling.maxReplicas) }}{{ fail "stream.autoscaling: minReplicas is more than maxReplicas" }}{{ end -}}
{{- range $name, $receiver := default (dict) $v.settings.deliver }}
{{- if $receiver.url }}{{ fail (printf "settings.deliver.%s.url is a secret, and settings become a ConfigMap: mount the Secret with web.secretMounts, and name its file in settings.deliver.%s.url_file" $name $name) }}{{ end -}}
{{- end -}}
{{- if and $v.settings.deliver (not (dig "web" "run_delivery" false $v.settings)) }}{{ fail "settings.deliver names receivers, but no program of this chart would deliver to them: set settings.web.run_delivery to true" }}{{ end -}}
{{- $sqs := and $v.ingest.enabled (regexMatch "(^| )--sqs(=| |$)" (join " " $v.ingest.extraArgs)) -}}
{{- $variables := concat $v.extraEnv $v.ingest.extraEnv | toJson -}}
{{- if and $sqs (not (dig "sqs" "allowed_buckets" list $v.settings)) (not (contains "FINGERPRINT_SQS__ALLOWED_BUCKETS" $variables)) }}{{ fail "ingest.extraArgs name a queue, but no bucket may be read: name the trail's in settings.sqs.allowed_buckets" }}{{ end -}}
{{- if $v.networkPolicy.enabled -}}
{{- if and (or $v.web.ingress.enabled (ne $v.web.service.type "ClusterIP")) (not $v.networkPolicy.webFrom) }}{{ fail "networkPolicy.webFrom: name who may reach the web server, such as the ingress controller's namespace, or no client can" }}{{ end -}}
{{- $e := $v.networkPolicy.egress -}}
{{- if not (or $v.kafka.enabled $e.kafka) }}{{ fail "networkPolicy.egress.kafka: say how your brokers are reached, or no pod can" }}{{ end -}}
{{- if not (or $v.postgres.enabled $e.database) }}{{ fail "networkPolicy.egress.database: say how your PostgreSQL is reached, or no pod can" }}{{ end -}}
{{- if and $v.checkpoints.url (not $e.checkpoints) }}{{ fail "networkPolicy.egress.checkpoints: say how the object store is reached, or no pod can" }}{{ end -}}
{{- if and $sqs (not $e.ingest) }}{{ fail "networkPolicy.egress.ingest: say how SQS and S3 are reached, or ingest cannot read the queue of ingest.extraArgs" }}{{ end -}}
{{- range $name, $receiver := default (dict) $v.settings.deliver }}
{{- if and (ne (default "webhook" $receiver.kind) "kafka") (not $e.web) }}{{ fail (printf "networkPolicy.egress.web: say how the receiver settings.deliver.%s is reached, or no alert arrives there" $name) }}{{ end -}}
{{- end -}}
{{- if and (dig "web" "oidc" "issuer" "" $v.settings) (not $e.web) }}{{ fail "networkPolicy.egress.web: say how the OpenID provider of settings.web.oidc is reached, or no one can log in" }}{{ end -}}
{{- if and $v.monitoring.serviceMonitor.enabled (not $v.networkPolicy.metricsFrom) }}{{ fail "networkPolicy.metricsFrom: name who may read metrics, such as Prometheus' namespace, or what monitoring.serviceMonitor asks for cannot be scraped" }}{{ end -}}
{{- end -}}
{{- end -}}
