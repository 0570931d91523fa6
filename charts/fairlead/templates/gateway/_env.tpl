{{/* Environment variables of the gateway. */}}
{{- define "fairlead.gateway.env" -}}
- name: FAIRLEAD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: FAIRLEAD_HOST
  value: 0.0.0.0
- name: FAIRLEAD_CACHE_DIR
  value: /var/cache/fairlead
- name: FAIRLEAD_CREDENTIALS
  value: /etc/fairlead-credentials
- name: FAIRLEAD_DRAIN
  value: {{ .Values.gateway.drain.waitSeconds | quote }}
- name: FAIRLEAD_GRACE
  value: {{ .Values.gateway.drain.graceSeconds | quote }}
{{- include "fairlead.secretVariable" (dict "name" "FAIRLEAD_PULL_TOKEN" "secret" (include "fairlead.secret" .) "key" "pullToken") | nindent 0 }}
{{- include "fairlead.secretVariable" (dict "name" "FAIRLEAD_SESSION_KEY" "secret" (include "fairlead.secret" .) "key" "sessionKey") | nindent 0 }}
- name: FAIRLEAD_ENVIRONMENT
  value: {{ .Values.environment }}
- name: FAIRLEAD_LOG_LEVEL
  value: {{ .Values.logging.level }}
- name: FAIRLEAD_LOG_FORMAT
  value: {{ .Values.logging.format }}
{{- if .Values.gateway.routes }}
- name: FAIRLEAD_ROUTES
  value: /etc/fairlead/routes.yaml
{{- end }}
{{- include "fairlead.settings" .Values.gateway.settings | nindent 0 }}
{{- with .Values.gateway.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}
