{{/* Name of everything that the release owns. */}}
{{- define "sherd.fullname" -}}
{{- $name := .Values.nameOverride | default "sherd" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- printf "%s-operator" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s-operator" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The name is fixed: nodes' network policies let operators in by it. */}}
{{- define "sherd.selector" -}}
app.kubernetes.io/name: sherd-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Labels that the release gives its objects, whatever the values say. */}}
{{- define "sherd.ownLabels" -}}
{{ include "sherd.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: {{ .Values.nameOverride | default "sherd" | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sherd.labels" -}}
{{ mergeOverwrite (dict) (.Values.commonLabels | default dict) (include "sherd.ownLabels" . | fromYaml) | toYaml }}
{{- end }}

{{/* The same with further ones, which go before commonLabels: (list . labels). */}}
{{- define "sherd.labelsWith" -}}
{{- $root := first . -}}
{{ mergeOverwrite (dict) ($root.Values.commonLabels | default dict) (last . | default dict) (include "sherd.ownLabels" $root | fromYaml) | toYaml }}
{{- end }}

{{/* Namespaces that are watched, as a JSON list. */}}
{{- define "sherd.namespaces" -}}
{{- .Values.watchNamespaces | default (list .Release.Namespace) | toJson -}}
{{- end }}

{{/* Namespaces whose Buckets and BucketUsers alone are worked on, as a JSON list. */}}
{{- define "sherd.bucketNamespaces" -}}
{{- $watched := include "sherd.namespaces" . | fromJsonArray -}}
{{- $namespaces := list -}}
{{- if not (has "*" $watched) -}}
{{- range .Values.bucketNamespaces -}}
{{- if not (has . $watched) -}}
{{- $namespaces = append $namespaces . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $namespaces | toJson -}}
{{- end }}

{{/* The namespace of the StorageCluster that `helm test` uses: the release's own where it is watched, else the first that is. */}}
{{- define "sherd.testNamespace" -}}
{{- $watched := include "sherd.namespaces" . | fromJsonArray -}}
{{- $own := or (has "*" $watched) (has .Release.Namespace $watched) -}}
{{- .Values.test.namespace | default (ternary .Release.Namespace (first $watched) $own) -}}
{{- end }}

{{- define "sherd.operatorImage" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "sherd.nodeImage" -}}
{{ .Values.nodeImage.repository }}:{{ .Values.nodeImage.tag | default .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.nodeImage.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The user of the operator's process; OpenShift gives each namespace its own, and refuses others. */}}
{{- define "sherd.podSecurity" -}}
runAsNonRoot: true
{{- if not (.Capabilities.APIVersions.Has "security.openshift.io/v1") }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* What the operator may do with Buckets and BucketUsers in a namespace. */}}
{{- define "sherd.objectRules" -}}
- apiGroups: [sherd.dev]
  resources: [buckets, bucketusers]
  verbs: [get, list, watch, patch]
- apiGroups: [sherd.dev]
  resources: [buckets/status, bucketusers/status]
  verbs: [get, patch]
- apiGroups: [sherd.dev]
  resources: [bucketusers/finalizers]
  verbs: [update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* What the operator may do in a namespace of Buckets and BucketUsers alone. */}}
{{- define "sherd.bucketRules" -}}
{{ include "sherd.objectRules" . }}
# A key's Secret is made, read and changed by its name, which a BucketUser chooses; none is listed, watched or deleted.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
{{- end }}

{{/* What the operator may do in a namespace that it watches. */}}
{{- define "sherd.rules" -}}
{{ include "sherd.objectRules" . }}
- apiGroups: [sherd.dev]
  resources: [storageclusters]
  verbs: [get, list, watch]
- apiGroups: [sherd.dev]
  resources: [storageclusters/status]
  verbs: [get, patch]
# Owner references that block deletion need the right to set finalizers.
- apiGroups: [sherd.dev]
  resources: [storageclusters/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [secrets, serviceaccounts]
  verbs: [get, list, watch, create, patch, update]
# The Service of IAM is deleted where the specification turns that off.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, update, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, update, delete]
# A StatefulSet whose fixed fields differ is deleted without its pods, and made again.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, update, delete]
# The template that a failed update is taken back to.
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get]
# Pods are replaced one after the other, as disruption budgets allow.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, update]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, update, delete]
# A pod that never started, with a template that is no longer asked for, is deleted.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
# Claims grow, and carry the geometry of their cluster.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, patch]
# The certificate of S3, where cert-manager issues it; without cert-manager the rule is for nothing.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, create, update, patch]
# Why a StatefulSet's pods are refused is in its events alone.
- apiGroups: [""]
  resources: [events]
  verbs: [list]
# One installation works on a namespace's clusters: it holds this lease. A name cannot limit what is created.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [sherd-clusters]
  verbs: [get, update]
{{- end }}
