{{/* The StorageCluster's name. */}}
{{- define "sherd-cluster.name" -}}
{{ .Values.name | default .Release.Name }}
{{- end }}

{{- define "sherd-cluster.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
app.kubernetes.io/name: sherd-cluster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
