{{/* The StorageCluster's name. */}}
{{- define "sherd-cluster.name" -}}
{{ .Values.name | default .Release.Name }}
{{- end }}

{{/* Labels that the release gives its objects, whatever the values say. */}}
{{- define "sherd-cluster.ownLabels" -}}
app.kubernetes.io/name: sherd-cluster
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sherd-cluster.labels" -}}
{{ mergeOverwrite (dict) (.Values.commonLabels | default dict) (include "sherd-cluster.ownLabels" . | fromYaml) | toYaml }}
{{- end }}

{{/* Where nodes get the certificate of S3 from; None: they speak clear text. */}}
{{- define "sherd-cluster.tlsMode" -}}
{{ dig "tls" "mode" "None" .Values.spec }}
{{- end }}

{{/* The port of the S3 Service. */}}
{{- define "sherd-cluster.s3Port" -}}
{{ dig "gateway" "service" "port" 9000 .Values.spec | int }}
{{- end }}

{{/* The name of that port. */}}
{{- define "sherd-cluster.s3PortName" -}}
{{ dig "gateway" "service" "portName" "s3" .Values.spec }}
{{- end }}
