{{- /* Names are cut so that the longest suffix still fits into 63 characters. */ -}}
{{- define "octavo.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "octavo.operatorName" -}}
{{- printf "%s-operator" (include "octavo.fullname" .) -}}
{{- end -}}

{{- define "octavo.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "octavo.operatorName" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "octavo.selectorLabels" -}}
app.kubernetes.io/name: octavo-operator
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "octavo.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: octavo
{{ include "octavo.selectorLabels" . }}
{{- end -}}

{{- /* An image reference from {image: {repository, tag, digest}, default: tag}. */ -}}
{{- define "octavo.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .default .image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "octavo.subjects" -}}
- kind: ServiceAccount
  name: {{ include "octavo.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
