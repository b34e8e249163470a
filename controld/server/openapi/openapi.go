// Package openapi makes the OpenAPI document of the API from its table of operations and the Go
// types of their bodies.
//
// The library (huma) only writes the document. It could also decode and validate requests, but that
// would cost several times the rest of a submission.
package openapi

import (
	"cmp"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rota-hpc/rota/controld/api"
)

// Operation describes one route in the document.
type Operation struct {
	Method, Path string
	Summary      string
	For          string // roles of callers that may use it
	Params       []Param
	In, Out      reflect.Type // types of the request's and the answer's body; nil for none
	AlsoIn       reflect.Type // another form that the request body may have
	Media        string       // media type of the answer; "" is JSON
	Poll         bool         // takes after, wait and consistent
}

// Param is a parameter in the path or the query.
type Param struct {
	Name string
	In   string // path or query
	Kind Kind
	Doc  string
}

// Kind is the type of a parameter's value.
type Kind string

// Kinds of parameters. JSON Schema lacks the last three; the document shows them as strings.
const (
	String   Kind = huma.TypeString
	Integer  Kind = huma.TypeInteger // from 0
	Boolean  Kind = huma.TypeBoolean
	Array    Kind = huma.TypeArray // of strings, separated by commas or repeated
	Duration Kind = "duration"     // such as 60s
	Instant  Kind = "instant"      // RFC 3339
	Page     Kind = "page"         // begin of a page: the number in `next` of the page before
)

// polling are the parameters of an operation with Poll.
var polling = []Param{
	{Name: "after", In: "query", Kind: Integer, Doc: "answer only once the index is above this value"},
	{Name: "wait", In: "query", Kind: Duration, Doc: "longest wait for such an answer, such as 60s"},
	{Name: "consistent", In: "query", Kind: Boolean, Doc: "include every change acknowledged before the request"},
}

// Query returns the query parameters, including those of a long poll.
func (o *Operation) Query() []Param {
	query := slices.DeleteFunc(slices.Clone(o.Params), func(p Param) bool { return p.In != "query" })
	if o.Poll {
		query = append(query, polling...)
	}
	return query
}

// Document returns the OpenAPI document of the operations. It leaves out those without a summary.
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
	case "model", "cluster", "trust", "generation", "ranges", "fsm", "grid", "topology", "estimate":
		return "State" + name
	}
	return name
}

func operation(rt *Operation, registry huma.Registry, problem *huma.Schema) *huma.Operation {
	op := &huma.Operation{Method: rt.Method, Path: rt.Path, Summary: rt.Summary, OperationID: operationID(rt),
		Description: "For: " + rt.For + ".", Responses: map[string]*huma.Response{}}
	for _, p := range rt.Params {
		if p.In == "path" {
			op.Parameters = append(op.Parameters, parameter(p))
		}
	}
	for _, p := range rt.Query() {
		op.Parameters = append(op.Parameters, parameter(p))
	}
	if rt.In != nil {
		schema := registry.Schema(rt.In, true, "")
		if rt.AlsoIn != nil {
			schema = &huma.Schema{AnyOf: []*huma.Schema{schema, registry.Schema(rt.AlsoIn, true, "")}}
		}
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	}
	body := &huma.MediaType{}
	if rt.Out != nil {
		body.Schema = registry.Schema(rt.Out, true, "")
	}
	op.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{Description: http.StatusText(http.StatusOK),
		Content: map[string]*huma.MediaType{cmp.Or(rt.Media, "application/json"): body}}
	op.Responses["default"] = &huma.Response{Description: "A problem",
		Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}}}
	return op
}

// operationID is a name for generated clients: post-v1-jobs-id-cancel.
func operationID(rt *Operation) string {
	p := strings.NewReplacer("/", "-", "{", "", "}", "", ".", "-").Replace(rt.Path)
	return strings.ToLower(rt.Method) + p
}

func parameter(p Param) *huma.Param {
	s := &huma.Schema{Type: string(p.Kind)}
	switch p.Kind {
	case Array:
		s.Items = &huma.Schema{Type: huma.TypeString}
	case Duration, Instant, Page:
		s.Type = huma.TypeString
	}
	return &huma.Param{Name: p.Name, In: p.In, Description: p.Doc, Required: p.In == "path", Schema: s}
}
