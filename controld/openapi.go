package controld

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rota-hpc/rota/controld/api"
)

// document generates the OpenAPI document from the table of routes and the Go types of their bodies.
//
// The table is served by this package itself: passing each request through the library's own decoding and validation costs several
// times what the rest of a submission does.
func document(routes []route) ([]byte, error) {
	doc, err := describe(routes)
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

func describe(routes []route) (*huma.OpenAPI, error) {
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Rota", Version: api.Release,
			Description: "The API of a Rota cluster. Every answer has the header " + api.HeaderIndex + "; errors are problem+json with a stable code."},
		Components: &huma.Components{Schemas: registry},
	}
	problem := registry.Schema(reflect.TypeFor[api.Problem](), true, "")
	for i := range routes {
		rt := &routes[i]
		if strings.HasPrefix(rt.path, internalPrefix) {
			continue
		}
		doc.AddOperation(operation(rt, registry, problem))
	}
	return doc, nil
}

// schemaName keeps the types of the packages apart: a job in a request is a SpecJob, one in an answer a Job.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch path.Base(t.PkgPath()) {
	case "jobspec":
		return "Spec" + name
	case "cluster":
		return "State" + name
	}
	return name
}

func operation(rt *route, registry huma.Registry, problem *huma.Schema) *huma.Operation {
	op := &huma.Operation{Method: rt.method, Path: rt.path, Summary: rt.summary, OperationID: operationID(rt),
		Responses: map[string]*huma.Response{}}
	for _, p := range rt.params {
		op.Parameters = append(op.Parameters, parameter(p))
	}
	if rt.poll {
		for _, p := range []param{
			{name: "after", in: "query", kind: "integer", doc: "answer only when the index is above this"},
			{name: "wait", in: "query", kind: "string", doc: "but not later than this, such as 60s"},
			{name: "consistent", in: "query", kind: "boolean", doc: "reflect everything acknowledged before"},
		} {
			op.Parameters = append(op.Parameters, parameter(p))
		}
	}
	if rt.in != nil {
		schema := registry.Schema(rt.in, true, "")
		if rt.alsoIn != nil {
			schema = &huma.Schema{AnyOf: []*huma.Schema{schema, registry.Schema(rt.alsoIn, true, "")}}
		}
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	}
	media, body := "application/json", &huma.MediaType{}
	if rt.media != "" {
		media = rt.media
	}
	if rt.out != nil {
		body.Schema = registry.Schema(rt.out, true, "")
	}
	op.Responses[strconv.Itoa(success)] = &huma.Response{Description: http.StatusText(success), Content: map[string]*huma.MediaType{media: body}}
	op.Responses["default"] = &huma.Response{Description: "A problem",
		Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}}}
	return op
}

// operationID is a name for generated clients: post-v1-jobs-id-cancel.
func operationID(rt *route) string {
	p := strings.NewReplacer("/", "-", "{", "", "}", "", ".", "-").Replace(rt.path)
	return fmt.Sprintf("%s%s", strings.ToLower(rt.method), p)
}

func parameter(p param) *huma.Param {
	s := &huma.Schema{Type: p.kind}
	if p.kind == "array" {
		s.Items = &huma.Schema{Type: "string"}
	}
	return &huma.Param{Name: p.name, In: p.in, Description: p.doc, Required: p.in == "path", Schema: s}
}
