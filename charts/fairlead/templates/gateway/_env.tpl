{{/* Environment variables of the gateway. */}}
{{- define "fairlead.gateway.env" -}}
- name: FAIRLEAD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: FAIRLEAD_POD_IPS
  valueFrom:
    fieldRef:
      fieldPath: status.podIPs
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
{{- include "fairlead.settings" (pick .Values.servers "allowedUrls" "deniedNetworks" "confined" "gatewayApprovals") | nindent 0 }}
- name: FAIRLEAD_ENVIRONMENT
  value: {{ .Values.environment | quote }}
- name: FAIRLEAD_LOG_LEVEL
  value: {{ .Values.logging.level }}
- name: FAIRLEAD_LOG_FORMAT
  value: {{ .Values.logging.format }}
{{- if .Values.gateway.routes }}
- name: FAIRLEAD_ROUTES
  value: /etc/fairlead/routes.yaml
{{- end }}
- name: FAIRLEAD_AUDIT_KEY
  valueFrom:
    secretKeyRef:
      name: {{ include "fairlead.secret" . | quote }}
      key: auditKey
      optional: true
{{- if .Values.redis.existingSecret }}
{{- include "fairlead.secretVariable" (dict "name" "FAIRLEAD_REDIS" "secret" .Values.redis.existingSecret "key" "url") | nindent 0 }}
{{- else if .Values.redis.url }}
- name: FAIRLEAD_REDIS
  value: {{ .Values.redis.url | quote }}
{{- end }}
{{- if ne .Values.grants.store "None" }}
- name: FAIRLEAD_GRANTS
  value: {{ lower .Values.grants.store }}
{{- include "fairlead.secretVariable" (dict "name" "FAIRLEAD_GRANT_KEYS" "secret" .Values.grants.keysSecret "key" "keys") | nindent 0 }}
{{- if eq .Values.grants.store "Secrets" }}
- name: FAIRLEAD_GRANTS_SECRET
  value: {{ include "fairlead.fullname" . }}-grants
{{- end }}
{{- end }}
{{- if .Values.embedder.existingSecret }}
{{- include "fairlead.secretVariable" (dict "name" "FAIRLEAD_EMBEDDER_KEY" "secret" .Values.embedder.existingSecret "key" "key") | nindent 0 }}
{{- end }}
{{- if .Values.compressor.existingSecret }}
{{- include "fairlead.secretVariable" (dict "name" "FAIRLEAD_COMPRESSOR_KEY" "secret" .Values.compressor.existingSecret "key" "key") | nindent 0 }}
{{- end }}
{{- if .Values.console.existingSecret }}
{{- include "fairlead.secretVariable" (dict "name" "FAIRLEAD_CONSOLE_CLIENT_SECRET" "secret" .Values.console.existingSecret "key" "clientSecret") | nindent 0 }}
{{- end }}
{{- if .Values.otel.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .Values.otel.endpoint | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ .Values.otel.protocol }}
{{- range $signal := list "traces" "metrics" "logs" }}
- name: OTEL_{{ upper $signal }}_EXPORTER
  value: {{ has $signal $.Values.otel.signals | ternary "otlp" "none" }}
{{- end }}
{{- if .Values.otel.headersSecret }}
{{- include "fairlead.secretVariable" (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "secret" .Values.otel.headersSecret "key" "headers") | nindent 0 }}
{{- end }}
{{- end }}
{{- with .Values.identity.apiKeySecrets }}
- name: FAIRLEAD_API_KEY_SECRETS
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.identity.keyMakers }}
- name: FAIRLEAD_KEY_MAKERS
  value: {{ join "," . | quote }}
- name: FAIRLEAD_MADE_KEYS_SECRET
  value: {{ include "fairlead.fullname" $ }}-made-keys
{{- end }}
{{- if include "fairlead.identity" . }}
- name: FAIRLEAD_IDENTITY
  value: /etc/fairlead/identity.yaml
{{- end }}
{{- if .Values.tls.secret }}
- name: FAIRLEAD_TLS_CERT
  value: /etc/fairlead-tls/tls.crt
- name: FAIRLEAD_TLS_KEY
  value: /etc/fairlead-tls/tls.key
{{- end }}
{{- if .Values.tls.clientCASecret }}
- name: FAIRLEAD_TLS_CLIENT_CA
  value: /etc/fairlead-client-ca/ca.crt
{{- end }}
{{- include "fairlead.settings" .Values.gateway.settings | nindent 0 }}
{{- with .Values.gateway.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}
