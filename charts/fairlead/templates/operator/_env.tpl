{{/* Environment variables of the operator. */}}
{{- define "fairlead.operator.env" -}}
- name: FAIRLEAD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: FAIRLEAD_POD_IPS
  valueFrom:
    fieldRef:
      fieldPath: status.podIPs
- name: FAIRLEAD_LEASE_NAME
  value: {{ include "fairlead.fullname" . }}-operator
# What the operator writes here goes with its account and its Service when the release is uninstalled. An account of
# somebody else stays then.
{{- if .Values.operator.serviceAccount.create }}
- name: FAIRLEAD_OWNER_TOKEN
  value: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
- name: FAIRLEAD_OWNER_SERVICE
  value: {{ include "fairlead.fullname" . }}-operator
- name: FAIRLEAD_GATEWAYS
  value: http://{{ include "fairlead.fullname" . }}-gateway-ops.{{ .Release.Namespace }}.svc:9464
{{- if .Values.secret.existingSecret }}
{{- include "fairlead.secretVariable" (dict "name" "FAIRLEAD_PULL_TOKEN" "secret" (include "fairlead.secret" .) "key" "pullToken") | nindent 0 }}
{{- else }}
- name: FAIRLEAD_INSTALLATION_SECRET
  value: {{ include "fairlead.secret" . | quote }}
{{- end }}
{{- with .Values.watchNamespace }}
- name: FAIRLEAD_WATCH_NAMESPACE
  value: {{ . | quote }}
{{- end }}
{{- if .Values.tiers }}
- name: FAIRLEAD_TIERS
  value: /etc/fairlead/tiers.yaml
{{- end }}
{{- with .Values.defaultTier | default (ternary "fast" "" (and .Values.samples.voice (not .Values.tiers))) }}
- name: FAIRLEAD_DEFAULT_TIER
  value: {{ . | quote }}
{{- end }}
- name: FAIRLEAD_LISTENER_IMAGE
  value: {{ include "fairlead.imageOf" (dict "root" . "image" .Values.servers.listenerImage) | quote }}
- name: FAIRLEAD_RUNNER_IMAGE
  value: {{ include "fairlead.imageOf" (dict "root" . "image" .Values.servers.runnerImage) | quote }}
- name: FAIRLEAD_CREDENTIALS_NAME
  value: {{ include "fairlead.fullname" . }}-credentials
- name: FAIRLEAD_USER_IDS
  value: {{ include "fairlead.assignedIds" . | empty | ternary "Fixed" "Assigned" }}
- name: FAIRLEAD_PREFIX_STYLE
  value: {{ .Values.servers.prefixStyle }}
{{- with .Values.rbac.secretNamespaces }}
- name: FAIRLEAD_SECRET_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
{{- if .Values.rbac.podLogs }}
- name: FAIRLEAD_POD_LOGS
  value: "true"
{{- end }}
- name: FAIRLEAD_POD_TEMPLATES
  value: {{ .Values.servers.podTemplates }}
- name: FAIRLEAD_ANY_POD_TEMPLATES_IN
  value: {{ join "," .Values.servers.anyPodTemplatesIn | quote }}
- name: FAIRLEAD_DEFAULT_ACTION
  value: {{ .Values.servers.defaultAction }}
{{- include "fairlead.settings" (pick .Values.servers "prefixRetentionSeconds" "podDrainSeconds" "allowedUrls" "deniedNetworks" "apiServerNetworks" "confined" "gatewayApprovals") | nindent 0 }}
{{- if .Values.networkPolicy.probe.enabled }}
- name: FAIRLEAD_NETWORK_POLICY_PROBE
  value: Daily
{{- with .Values.imagePullSecrets }}
{{- $names := list }}
{{- range . }}{{- $names = append $names .name }}{{- end }}
- name: FAIRLEAD_IMAGE_PULL_SECRETS
  value: {{ join "," $names | quote }}
{{- end }}
{{- end }}
- name: FAIRLEAD_ENVIRONMENT
  value: {{ .Values.environment | quote }}
- name: FAIRLEAD_LOG_LEVEL
  value: {{ .Values.logging.level }}
- name: FAIRLEAD_LOG_FORMAT
  value: {{ .Values.logging.format }}
{{- include "fairlead.settings" .Values.operator.settings | nindent 0 }}
{{- with .Values.operator.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}
