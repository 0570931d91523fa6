{{/* Name of a release's objects: the release's own, with the chart's in it. Short enough for every suffix. */}}
{{- define "fairlead.fullname" -}}
{{- $chart := .Values.nameOverride | default "fairlead" -}}
{{- $name := .Values.fullnameOverride | default (contains $chart .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $chart)) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of an object; call with (dict "root" $ "component" "gateway"). */}}
{{- define "fairlead.labels" -}}
{{ include "fairlead.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fairlead
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What selects the pods of a component. Never changes: a Deployment's selector cannot, and the NetworkPolicies that the
operator makes for servers let in the pods of this name and component. */}}
{{- define "fairlead.selectorLabels" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* One image; call with (dict "root" $ "image" .Values.image). */}}
{{- define "fairlead.imageOf" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ with .image.variant }}-{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "fairlead.image" -}}
{{ include "fairlead.imageOf" (dict "root" . "image" .Values.image) }}
{{- end -}}

{{- define "fairlead.operator.serviceAccount" -}}
{{ .Values.operator.serviceAccount.name | default (printf "%s-operator" (include "fairlead.fullname" .)) }}
{{- end -}}

{{- define "fairlead.gateway.serviceAccount" -}}
{{ .Values.gateway.serviceAccount.name | default (printf "%s-gateway" (include "fairlead.fullname" .)) }}
{{- end -}}

{{/* Name of what stands in no namespace: two releases of one name in two namespaces are two. */}}
{{- define "fairlead.clusterName" -}}
{{ include "fairlead.fullname" . }}-{{ .Release.Namespace }}
{{- end -}}

{{/* Security context of the pods, without the ids that an OpenShift cluster assigns by itself. */}}
{{- define "fairlead.podSecurityContext" -}}
{{- if include "fairlead.assignedIds" . -}}
{{- toYaml (omit .Values.podSecurityContext "runAsUser" "runAsGroup" "fsGroup") -}}
{{- else -}}
{{- toYaml .Values.podSecurityContext -}}
{{- end -}}
{{- end -}}

{{/* "true" where user ids are the cluster's to assign, else nothing. */}}
{{- define "fairlead.assignedIds" -}}
{{- $openshift := .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- if or (eq .Values.userIds "Assigned") (and (eq .Values.userIds "Auto") $openshift) -}}true{{- end -}}
{{- end -}}

{{/* Name of the installation's Secret, with `pullToken`, `sessionKey` and `auditKey`. */}}
{{- define "fairlead.secret" -}}
{{ .Values.secret.existingSecret | default (include "fairlead.fullname" .) }}
{{- end -}}

{{/* Pods of the gateway, where their number is fixed. */}}
{{- define "fairlead.gateway.replicas" -}}
{{- if kindIs "invalid" .Values.gateway.replicas -}}2{{- else -}}{{ int .Values.gateway.replicas }}{{- end -}}
{{- end -}}

{{/* `replicas` of the gateway's Deployment; empty where its autoscaler has the field for itself. While Helm is among its
     managers, an upgrade that left it out would set it to 1 until the autoscaler looks: it keeps the number that is there.
     An upgrade on the client's side always sets what the revision before had, so there the number is always given. */}}
{{- define "fairlead.gateway.renderedReplicas" -}}
{{- if not .Values.gateway.autoscaling.enabled -}}
{{- include "fairlead.gateway.replicas" . -}}
{{- else -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (printf "%s-gateway" (include "fairlead.fullname" .)) -}}
{{- $helm := dict "applies" false "has" false -}}
{{- range .metadata.managedFields -}}
{{- if and (eq .manager "helm") (eq .operation "Apply") (not .subresource) -}}
{{- $_ := set $helm "applies" true -}}
{{- $_ := set $helm "has" (hasKey (index .fieldsV1 "f:spec" | default dict) "f:replicas") -}}
{{- end -}}
{{- end -}}
{{- if or $helm.has (not $helm.applies) -}}{{ int .spec.replicas }}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A value as an environment variable has it: lists with commas, whole numbers without an exponent. */}}
{{- define "fairlead.text" -}}
{{- if kindIs "slice" . -}}
{{- join "," . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* `settings` of a component as FAIRLEAD_… variables: callTimeout becomes FAIRLEAD_CALL_TIMEOUT. */}}
{{- define "fairlead.settings" -}}
{{- range $name, $value := . }}
{{- if not (kindIs "invalid" $value) }}
- name: FAIRLEAD_{{ $name | snakecase | upper }}
  value: {{ include "fairlead.text" $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A Secret's key as an environment variable; call with (dict "name" … "secret" … "key" …). */}}
{{- define "fairlead.secretVariable" -}}
- name: {{ .name | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: {{ .key | quote }}
{{- end -}}

{{/* Nodes, runtime and name resolution of a component's pods; call with its values. */}}
{{- define "fairlead.scheduling" -}}
{{- with .runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with .dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- /* glibc's own 5 s are all that a connection gets: a lost packet would fail the first call to a server. */}}
{{- $options := list (dict "name" "timeout" "value" "1") (dict "name" "attempts" "value" "3") }}
dnsConfig:
  {{- merge (dict) (.dnsConfig | default dict) (dict "options" $options) | toYaml | nindent 2 }}
{{- with .hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Spread of a component's pods over nodes and zones; call with (dict "root" $ "component" "operator"). */}}
{{- define "fairlead.spread" -}}
{{- $given := (index .root.Values .component).topologySpreadConstraints -}}
{{- $component := . -}}
topologySpreadConstraints:
{{- if $given }}
  {{- toYaml $given | nindent 2 }}
{{- else }}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "fairlead.selectorLabels" $component | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- end -}}

{{/* Where the pods of operator and gateway may go, as `egress` of a NetworkPolicy; nothing where that is not bound. */}}
{{- define "fairlead.egress" -}}
{{- with .Values.networkPolicy.egress }}
{{- if .enabled }}
egress:
  - ports:
      - port: 53
        protocol: UDP
      - port: 53
        protocol: TCP
  - ports:
      - port: 443
      - port: 6443
    {{- with .apiServer }}
    to:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  - to:
      - podSelector:
          matchLabels:
            app.kubernetes.io/name: fairlead
            app.kubernetes.io/instance: {{ $.Release.Name | quote }}
      # servers, as the operator labels their pods
      - namespaceSelector:
          {{- if $.Values.watchNamespace }}
          matchLabels:
            kubernetes.io/metadata.name: {{ $.Values.watchNamespace | quote }}
          {{- else }} {}
          {{- end }}
        podSelector:
          matchLabels:
            app.kubernetes.io/managed-by: fairlead
  {{- with .rules }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The file about whose tokens are taken; nothing where none are. */}}
{{- define "fairlead.identity" -}}
{{- $file := dict -}}
{{- with .Values.identity.issuers }}{{- $_ := set $file "issuers" . }}{{- end -}}
{{- with .Values.identity.scopes }}{{- $_ := set $file "scopes" . }}{{- end -}}
{{- with .Values.identity.serviceAccountAudiences }}{{- $_ := set $file "serviceAccounts" (dict "audiences" .) }}{{- end -}}
{{- with .Values.identity.authorizationServer -}}
{{- $server := deepCopy . -}}
{{- range $index, $provider := $server.providers -}}
{{- if $provider.clientSecret -}}
{{- $_ := set $provider "clientSecretFile" (printf "/etc/fairlead-authorization/%d" $index) -}}
{{- $_ := unset $provider "clientSecret" -}}
{{- end -}}
{{- end -}}
{{- $_ := set $file "authorizationServer" $server -}}
{{- end -}}
{{- if $file }}{{- toYaml $file }}{{- end -}}
{{- end -}}

{{/* The gateway's file of routes and providers, with the mounted keys of Secrets; nothing without any. */}}
{{- define "fairlead.gateway.routes" -}}
{{- with .Values.gateway.routes -}}
{{- $file := deepCopy . -}}
{{- range $name, $provider := $file.providers -}}
{{- if $provider.keySecret -}}
{{- $_ := set $provider "keyFile" (printf "/etc/fairlead-provider-keys/%s" $name) -}}
{{- $_ := unset $provider "keySecret" -}}
{{- end -}}
{{- range $part := list "stt" "tts" -}}
{{- with index $provider $part -}}
{{- if .keySecret -}}
{{- $_ := set . "keyFile" (printf "/etc/fairlead-provider-keys/%s.%s" $name $part) -}}
{{- $_ := unset . "keySecret" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $file -}}
{{- end -}}
{{- end -}}

{{/* Keys of providers as sources of a projected volume; nothing where there are none. A Secret that is not there keeps no pod
from its start: requests to that provider are told. */}}
{{- define "fairlead.gateway.providerKeys" -}}
{{- range $name, $provider := (default dict .Values.gateway.routes).providers }}
{{- with $provider.keySecret }}
- secret:
    name: {{ .name | quote }}
    optional: true
    items:
      - key: {{ .key | quote }}
        path: {{ $name | quote }}
{{- end }}
{{- range $part := list "stt" "tts" }}
{{- with index $provider $part }}
{{- with .keySecret }}
- secret:
    name: {{ .name | quote }}
    optional: true
    items:
      - key: {{ .key | quote }}
        path: {{ printf "%s.%s" $name $part | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Secrets of the gateway as a client of providers, as sources of a projected volume; nothing where there are none. */}}
{{- define "fairlead.gateway.clientSecrets" -}}
{{- range $index, $provider := (default dict .Values.identity.authorizationServer).providers }}
{{- with $provider.clientSecret }}
- secret:
    name: {{ .name | quote }}
    items:
      - key: {{ .key | quote }}
        path: {{ $index | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The gateway's files from values, as the data of a ConfigMap; nothing where there are none. */}}
{{- define "fairlead.gateway.files" -}}
{{- with include "fairlead.gateway.routes" . }}
routes.yaml: |
  {{- . | nindent 2 }}
{{- end }}
{{- with include "fairlead.identity" . }}
identity.yaml: |
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A duration such as 1h30m in milliseconds, its form being right. */}}
{{- define "fairlead.milliseconds" -}}
{{- $units := dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+(ms|h|m|s)" . -1 -}}
{{- $number := regexFind "^[0-9]+" . -}}
{{- $sum = add $sum (mul (index $units (trimPrefix $number .)) (regexReplaceAll "^0+([0-9])" $number "${1}" | int64)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* A quantity of Kubernetes, such as 64Mi or 250m, as a number in its base unit: bytes, or cores. Its form being right. */}}
{{- define "fairlead.amount" -}}
{{- $decimal := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- $binary := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $unit := regexFind "[A-Za-z]+$" (toString .) -}}
{{- mulf (trimSuffix $unit (toString .) | float64) (get (merge $decimal $binary) $unit | default 1) -}}
{{- end -}}

{{/* Refuses a variable that is there twice: the API server would say so in words that do not help. Call with
(dict "component" "gateway" "env" TEXT), TEXT being the YAML of a list of variables. */}}
{{- define "fairlead.variables" -}}
{{- $component := .component -}}
{{- $seen := list -}}
{{- range fromYamlArray .env -}}
{{- if has .name $seen -}}
{{- fail (printf "%s: %s is set twice; extraEnv cannot replace what the chart sets, %s.settings and the other values can" $component .name $component) -}}
{{- end -}}
{{- $seen = append $seen .name -}}
{{- end -}}
{{ .env }}
{{- end -}}
