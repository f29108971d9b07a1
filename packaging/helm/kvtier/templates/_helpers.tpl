{{- define "kvtier.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end -}}

{{- define "kvtier.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kvtier.labels" -}}
{{ include "kvtier.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "kvtier.image" -}}
{{- $repository := required "image.repository is empty: expected the name of the image in your registry, such as REGISTRY/kvtier; make the image with 'scripts/package image'" .Values.image.repository -}}
{{- if .Values.image.digest }}{{ $repository }}@{{ .Values.image.digest }}{{ else }}{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{- define "kvtier.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "kvtier.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end -}}

{{- define "kvtier.priorityClass" -}}
{{- if .Values.priorityClass.create }}{{ .Values.priorityClass.name | default (include "kvtier.name" .) }}{{ else }}{{ .Values.priorityClass.name }}{{ end }}
{{- end -}}

{{/* A size of kvtier.yaml in MiB, rounded up. */}}
{{- define "kvtier.mebibytes" -}}
{{- $number := regexFind "^[0-9]+" (toString .) | int64 -}}
{{- $unit := regexFind "[A-Za-z]+$" (toString .) -}}
{{- if eq $unit "TiB" }}{{ mul $number 1048576 }}{{ else if eq $unit "GiB" }}{{ mul $number 1024 }}{{ else if eq $unit "MiB" }}{{ $number }}{{ else if eq $unit "KiB" }}{{ div (add $number 1023) 1024 }}{{ else }}{{ div (add $number 1048575) 1048576 }}{{ end }}
{{- end -}}

{{/* The configuration of the daemon: what the chart sets, and over it what the values have. */}}
{{- define "kvtier.config" -}}
{{- $config := dict
  "socket" (dict "path" "/run/kvtier/kvtier.sock" "mode" "0660" "groups" (list "kvtier"))
  "ssd" (dict "directory" "/var/cache/kvtier/ssd")
  "object" (dict "directory" "/var/cache/kvtier/object")
  "log" (dict "format" "json") -}}
{{- if not .Values.gpu.enabled }}{{ $_ := set $config "gpu" (dict "enabled" "off") }}{{ end -}}
{{- if .Values.secrets.tls }}
{{- $tls := dict "certificate" "/etc/kvtier-tls/tls.crt" "key" "/etc/kvtier-tls/tls.key" }}
{{- if .Values.secrets.clientCa }}{{ $_ := set $tls "client_ca" "/etc/kvtier-tls/ca.crt" }}{{ end }}
{{- $_ := set $config "tls" $tls }}
{{- end -}}
{{- if .Values.secrets.tokens }}{{ $_ := set $config "access" (dict "tokens" "/etc/kvtier-tokens/tokens") }}{{ end -}}
{{- if .Values.nodes.enabled }}
{{- $nodes := dict
  "listen" (printf "0.0.0.0:%d" (int .Values.nodes.port))
  "member_listen" (printf "0.0.0.0:%d" (int .Values.nodes.memberPort))
  "membership" "dns"
  "dns_name" (printf "%s-nodes.%s.svc" (include "kvtier.name" .) .Release.Namespace)
  "cluster" (include "kvtier.name" .)
  "certificate_name" .Values.nodes.certificateName }}
{{- if .Values.secrets.tls }}{{ $_ := set $nodes "ca" "/etc/kvtier-tls/ca.crt" }}{{ end }}
{{- if .Values.nodes.token.name }}{{ $_ := set $nodes "token_file" (printf "/etc/kvtier-nodes/%s" .Values.nodes.token.key) }}{{ end }}
{{- $_ := set $config "nodes" $nodes }}
{{- end -}}
{{- if .Values.secrets.objectKey }}{{ $_ := set $config.object "encryption" (dict "key_file" "/etc/kvtier-object/key") }}{{ end -}}
{{- toYaml (mustMergeOverwrite $config (deepCopy .Values.config)) }}
{{- end -}}

{{/* Whether an address is another one than loopback. */}}
{{- define "kvtier.isOpen" -}}
{{- if and . (not (or (hasPrefix "127." .) (has . (list "localhost" "::1" "[::1]")))) }}true{{ end }}
{{- end -}}

{{- define "kvtier.httpOpen" -}}
{{- $http := .Values.config.http | default dict -}}
{{- if ne (toString $http.enabled) "false" }}{{ include "kvtier.isOpen" $http.host }}{{ end }}
{{- end -}}

{{- define "kvtier.grpcOpen" -}}
{{- $grpc := .Values.config.grpc | default dict -}}
{{- if ne (toString $grpc.enabled) "false" }}{{ include "kvtier.isOpen" $grpc.host }}{{ end }}
{{- end -}}

{{- define "kvtier.httpPort" -}}
{{- (.Values.config.http | default dict).port | default 7080 }}
{{- end -}}

{{- define "kvtier.grpcPort" -}}
{{- (.Values.config.grpc | default dict).port | default 7075 }}
{{- end -}}

{{- define "kvtier.check" -}}
{{- $security := ((.Values.config.nodes | default dict).security | default "tls_and_tokens") -}}
{{- if and .Values.nodes.enabled (ne $security "plaintext_without_tokens") (not .Values.secrets.tls) -}}
{{- fail "nodes.enabled is true: set secrets.tls to a Secret with tls.crt, tls.key and ca.crt, or config.nodes.security to plaintext_without_tokens" }}
{{- end -}}
{{- if and .Values.nodes.enabled (eq $security "tls_and_tokens") (not (and .Values.secrets.tokens .Values.nodes.token.name)) -}}
{{- fail "nodes.enabled is true: set secrets.tokens, and nodes.token.name to a Secret with a token of the role read, or config.nodes.security to tls_without_tokens" }}
{{- end -}}
{{- if and .Values.lifecycle.handOverSeconds (not .Values.nodes.enabled) -}}
{{- fail "lifecycle.handOverSeconds is set, and there are no other nodes: set nodes.enabled to true, or lifecycle.handOverSeconds to 0" }}
{{- end -}}
{{- if and (or (include "kvtier.httpOpen" .) (include "kvtier.grpcOpen" .)) (not .Values.secrets.tls) (not (.Values.config.tls | default dict).certificate) -}}
{{- fail "config.http.host or config.grpc.host is not loopback: the daemon then needs TLS; set secrets.tls to a Secret with tls.crt and tls.key" }}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not (include "kvtier.httpOpen" .)) -}}
{{- fail "serviceMonitor.enabled is true, and HTTP listens on loopback only: set config.http.host to 0.0.0.0, secrets.tls and secrets.tokens" }}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.tokenSecret.name) (not .Values.secrets.clientCa) -}}
{{- fail "serviceMonitor.enabled is true, and Prometheus has no token: set serviceMonitor.tokenSecret.name to a Secret with a token of the role read" }}
{{- end -}}
{{- end -}}

{{/* A probe: over HTTPS where the kubelet reaches the port, else in the container. */}}
{{- define "kvtier.probe" -}}
{{- $root := index . 0 }}{{ $word := index . 1 }}{{ $numbers := index . 2 -}}
{{- $http := $root.Values.config.http | default dict -}}
{{- if and (include "kvtier.httpOpen" $root) (not $root.Values.secrets.clientCa) -}}
httpGet:
  path: {{ ternary "/readyz" "/healthz" (eq $word "ready") }}
  port: http
  scheme: HTTPS
{{- else -}}
exec:
  command: [/usr/bin/kvtierd-health, {{ $word }}, {{ include "kvtier.httpPort" $root | quote }}]
{{- end }}
{{ toYaml $numbers }}
{{- end -}}
