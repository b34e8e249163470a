// Package openapi makes the OpenAPI document of the API from its table of operations and the Go
// types of their bodies.
//
// The library only describes: passing each request through its own decoding and validation costs
// several times what the rest of a submission does.
package openapi

import (
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rota-hpc/rota/controld/api"
)

// Operation is what the document says of one route.
type Operation struct {
	Method, Path string
	Summary      string
	Params       []Param
	In, Out      reflect.Type // of the bodies; nil for none
	AlsoIn       reflect.Type // another form that the request body may have
	Media        string       // of the answer; "" is JSON
	Poll         bool         // takes after, wait and consistent
}

// Param is a parameter in the path or the query.
type Param struct {
	Name string
	In   string // path or query
	Kind string // string, integer, boolean or array
	Doc  string
}

// Document describes operations. Those without a summary are left out.
func Document(operations []Operation) (*huma.OpenAPI, error) {
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Rota", Version: api.Release,
			Description: "The API of a Rota cluster. Every answer has the header " + api.HeaderIndex +
				"; errors are problem+json with a stable code."},
		Components: &huma.Components{Schemas: registry},
	}
	problem := registry.Schema(reflect.TypeFor[api.Problem](), true, "")
	for i := range operations {
		op := &operations[i]
		if op.Summary == "" {
			continue
		}
		doc.AddOperation(operation(op, registry, problem))
	}
	return doc, nil
}

// schemaName keeps the types of the packages apart: a job in a request is a SpecJob, one in an
// answer a Job.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch path.Base(t.PkgPath()) {
	case "jobspec":
		return "Spec" + name
	case "model", "fsm", "grid", "topology", "estimate":
		return "State" + name
	}
	return name
}

func operation(rt *Operation, registry huma.Registry, problem *huma.Schema) *huma.Operation {
	op := &huma.Operation{Method: rt.Method, Path: rt.Path, Summary: rt.Summary, OperationID: operationID(rt),
		Responses: map[string]*huma.Response{}}
	for _, p := range rt.Params {
		op.Parameters = append(op.Parameters, parameter(p))
	}
	if rt.Poll {
		for _, p := range []Param{
			{Name: "after", In: "query", Kind: "integer", Doc: "answer only when the index is above this"},
			{Name: "wait", In: "query", Kind: "string", Doc: "but not later than this, such as 60s"},
			{Name: "consistent", In: "query", Kind: "boolean", Doc: "reflect everything acknowledged before"},
		} {
			op.Parameters = append(op.Parameters, parameter(p))
		}
	}
	if rt.In != nil {
		schema := registry.Schema(rt.In, true, "")
		if rt.AlsoIn != nil {
			schema = &huma.Schema{AnyOf: []*huma.Schema{schema, registry.Schema(rt.AlsoIn, true, "")}}
		}
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	}
	media, body := "application/json", &huma.MediaType{}
	if rt.Media != "" {
		media = rt.Media
	}
	if rt.Out != nil {
		body.Schema = registry.Schema(rt.Out, true, "")
	}
	op.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{Description: http.StatusText(http.StatusOK),
		Content: map[string]*huma.MediaType{media: body}}
	op.Responses["default"] = &huma.Response{Description: "A problem",
		Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}}}
	return op
}

// operationID is a name for generated clients: post-v1-jobs-id-cancel.
func operationID(rt *Operation) string {
	p := strings.NewReplacer("/", "-", "{", "", "}", "", ".", "-").Replace(rt.Path)
	return fmt.Sprintf("%s%s", strings.ToLower(rt.Method), p)
}

func parameter(p Param) *huma.Param {
	s := &huma.Schema{Type: p.Kind}
	if p.Kind == "array" {
		s.Items = &huma.Schema{Type: "string"}
	}
	return &huma.Param{Name: p.Name, In: p.In, Description: p.Doc, Required: p.In == "path", Schema: s}
}
