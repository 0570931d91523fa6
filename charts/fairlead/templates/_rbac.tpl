{{/*
The rights, from files/rbac.yaml: a copy of operator/rbac.yaml, kept equal by hack/gen, so that they are written down once.

fairlead.rules gives the rules of one Role or ClusterRole of that file as YAML; call it with
(dict "root" $ "kind" "ClusterRole" "name" "fairlead-operator" "only" ""); `only` narrows them to the resources that stand
in no namespace ("cluster"), or in one ("namespaced"). Nothing where no rule is left.
*/}}
{{- define "fairlead.rules" -}}
{{- $call := . -}}
{{- $clusterScoped := list "latencytiers" "latencytiers/status" "namespaces" "nodes" "tokenreviews" "subjectaccessreviews" "selfsubjectaccessreviews" -}}
{{- $rules := list -}}
{{- range $text := regexSplit "(?m)^---$" (.root.Files.Get "files/rbac.yaml") -1 -}}
{{- $object := fromYaml $text -}}
{{- if and (eq $object.kind $call.kind) (eq $object.metadata.name $call.name) -}}
{{- range $rule := $object.rules -}}
{{- $resources := list -}}
{{- range $resource := $rule.resources -}}
{{- $standsAlone := has $resource $clusterScoped -}}
{{- if or (not $call.only) (and $standsAlone (eq $call.only "cluster")) (and (not $standsAlone) (eq $call.only "namespaced")) -}}
{{- $resources = append $resources $resource -}}
{{- end -}}
{{- end -}}
{{- if $resources -}}
{{- $rules = append $rules (set (deepCopy $rule) "resources" $resources) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $rules -}}
{{- toYaml $rules -}}
{{- end -}}
{{- end -}}

{{/* A role and its binding; call with (dict "root" $ "component" "operator" "kind" "Role" "name" … "namespace" … "rules" …).
Without a namespace both are cluster-wide. */}}
{{- define "fairlead.role" -}}
{{- if .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty .namespace | ternary "ClusterRole" "Role" }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "fairlead.labels" (dict "root" .root "component" .component) | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty .namespace | ternary "ClusterRoleBinding" "RoleBinding" }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "fairlead.labels" (dict "root" .root "component" .component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ empty .namespace | ternary "ClusterRole" "Role" }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include (printf "fairlead.%s.serviceAccount" .component) .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
{{- end -}}

{{/* Name of what stands in no namespace: two releases of one name in two namespaces are two. */}}
{{- define "fairlead.clusterName" -}}
{{ include "fairlead.fullname" . }}-{{ .Release.Namespace }}
{{- end -}}
