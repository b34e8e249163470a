package listing

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
)

// expressionError is the error for a filter or a template, with a marker under the column.
func expressionError(flag, text string, column int, why string) *exit.UsageError {
	line, at := text, column
	if i := strings.LastIndexByte(text[:min(column, len(text))], '\n'); i >= 0 {
		line, at = text[i+1:], column-i-1
	}
	line, _, _ = strings.Cut(line, "\n")
	return exit.Usagef("%s: column %d: %s\n  %s\n  %s^", flag, at+1, why, show.Clean(line),
		strings.Repeat(" ", at))
}

// Filtered returns the items that match an expression. Fields have the names of -o json; a missing
// time is the zero time.
func Filtered[T any](items []T, text string) ([]T, error) {
	if text == "" {
		return items, nil
	}
	program, err := compileFilter[T](text)
	if err != nil {
		return nil, err
	}
	kept := make([]T, 0, len(items))
	for i := range items {
		holds, err := expr.Run(program, fieldMap(reflect.ValueOf(&items[i]).Elem()))
		if err != nil {
			return nil, filterError(text, err)
		}
		if holds == true {
			kept = append(kept, items[i])
		}
	}
	return kept, nil
}

// compileFilter compiles an expression for items of type T.
func compileFilter[T any](text string) (*vm.Program, error) {
	var sample T
	options := []expr.Option{expr.Env(fieldMap(reflect.ValueOf(&sample).Elem())), expr.AsBool()}
	if _, err := expr.Compile(text, options...); err != nil { // its messages are about the text as it was written
		return nil, filterError(text, err)
	}
	steps := &stepCounter{left: maxSteps}
	program, err := expr.Compile(text, append(options, steps.options()...)...)
	if err != nil {
		return nil, filterError(text, err)
	}
	return program, nil
}

func filterError(text string, err error) error {
	var where *file.Error
	if !errors.As(err, &where) {
		return exit.Usagef("--filter: %v", err)
	}
	at := where.Column
	for line := 1; line < where.Line; line++ {
		at += strings.IndexByte(text[at-where.Column:], '\n') + 1
	}
	return expressionError("--filter", text, at, where.Message).
		WithHint("use the names of -o json, for example: gpus > 4 and code == \"R\", name matches \"^train\", " +
			"\"gpu01\" in nodes")
}

// fieldMap turns a struct into a map by the names in its JSON, and inner structs too.
func fieldMap(v reflect.Value) map[string]any {
	m := map[string]any{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			m[name] = exprValue(v.Field(i))
		}
	}
	return m
}

// exprValue returns a value in the form that expressions use: numbers, texts, booleans, times,
// lists and maps.
func exprValue(v reflect.Value) any {
	if t, ok := v.Interface().(*api.Time); ok {
		if t == nil {
			return time.Time{}
		}
		return t.Time
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return exprValue(reflect.Zero(v.Type().Elem()))
		}
		return exprValue(v.Elem())
	case reflect.Struct:
		return fieldMap(v)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = exprValue(v.Index(i))
		}
		return list
	case reflect.Map:
		m := map[string]any{}
		for _, key := range v.MapKeys() {
			m[fmt.Sprint(key.Interface())] = exprValue(v.MapIndex(key))
		}
		return m
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Float32, reflect.Float64:
		return v.Float()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return int(v.Uint())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return int(v.Int())
	}
	return v.Interface()
}

// checkTemplate returns an error for an invalid template, before the cluster is asked.
func checkTemplate(text string) error {
	_, err := template.New("o").Parse(text)
	if err == nil {
		return nil
	}
	return templateError(text, brokenAction(text), err)
}

// brokenAction returns the offset of the first invalid action of a template. The parser itself
// returns only lines.
func brokenAction(text string) int {
	begin := 0
	for at := 0; ; {
		i := strings.Index(text[at:], "{{")
		if i < 0 {
			return begin
		}
		begin = at + i
		end := strings.Index(text[begin:], "}}")
		if end < 0 {
			return begin
		}
		at = begin + end + 2
		if !canContinue(text[:at]) {
			return begin
		}
	}
}

// canContinue reports whether text is the beginning of a valid template.
func canContinue(text string) bool {
	for n := range 1 + strings.Count(text, "{{") {
		if _, err := template.New("o").Parse(text + strings.Repeat("{{end}}", n)); err == nil {
			return true
		}
	}
	return false
}

func templateError(text string, at int, err error) error {
	why := err.Error()
	if i := strings.LastIndex(why, ": "); i >= 0 {
		why = why[i+2:]
	}
	return expressionError("-o template", text, at, why).
		WithHint("write a Go template with the names of -o json: {{.id}} {{.name}} {{.reason.code}}")
}

// PrintTemplate prints each item by a template, one per line.
func PrintTemplate[T any](out interface{ Write([]byte) (int, error) }, text string, items []T) error {
	t, err := template.New("o").Option("missingkey=error").Parse(text)
	if err != nil {
		return templateError(text, brokenAction(text), err)
	}
	for i := range items {
		b, err := json.Marshal(&items[i])
		if err != nil {
			return err
		}
		var value map[string]any
		dec := json.NewDecoder(strings.NewReader(string(b)))
		dec.UseNumber()
		if err := dec.Decode(&value); err != nil {
			return err
		}
		var line strings.Builder
		if err := t.Execute(&line, value); err != nil {
			var exec template.ExecError
			if !errors.As(err, &exec) {
				return err
			}
			return templateError(text, executionColumn(text, exec.Error()), err)
		}
		if _, err := fmt.Fprintln(out, line.String()); err != nil {
			return err
		}
	}
	return nil
}

// executionColumn returns the offset that an execution error names, as in "template: o:1:5: ...".
func executionColumn(text, why string) int {
	var line, column int
	if _, err := fmt.Sscanf(why, "template: o:%d:%d:", &line, &column); err != nil {
		return 0
	}
	at := 0
	for ; line > 1; line-- {
		at += strings.IndexByte(text[at:], '\n') + 1
	}
	return min(at+column, len(text))
}
