// Package template is text with references that only have a value once a job runs:
// "run-${array.index}". A job file's engine writes such text, and the node daemon puts the values
// in when it starts a task.
//
// A reference is written ${NAME}. An even number of signs stands for half as many signs and plain
// text. An odd number stands for half as many, rounded down, and a value. So $${job.id} is the text
// ${job.id}, and $$${job.id} is a $ and a value. Everything else stands for itself: ${HOME}, $HOME
// and $$ need nothing.
package template

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// names are the references besides the parameters of an array, array.NAME.
var names = []string{"array.index", "job.attempt", "job.id", "node.name", "worker.count", "worker.index"}

// reference matches what looks like a reference, with all the signs in front of it.
var reference = regexp.MustCompile(`(\$+)\{(array\.[a-z][a-z0-9_]*|job\.attempt|job\.id|node\.name|` +
	`worker\.count|worker\.index)\}`)

var parameter = regexp.MustCompile(`^array\.[a-z][a-z0-9_]*$`)

// Names lists the references that every job may use, in order. Those to an array's parameters come
// on top.
func Names() []string { return slices.Clone(names) }

// Known reports whether name can be a reference: one of [Names], or array.NAME.
func Known(name string) bool { return slices.Contains(names, name) || parameter.MatchString(name) }

// Escape returns the template that stands for text itself.
func Escape(text string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		signs := strings.IndexByte(found, '{')
		return found[:signs] + found
	})
}

// References lists the names of the references in a template, each once, in the order of their
// first place.
func References(text string) []string {
	var found []string
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if len(m[1])%2 == 1 && !slices.Contains(found, m[2]) {
			found = append(found, m[2])
		}
	}
	return found
}

// NoValueError is a reference that [Expand] was given no value for.
type NoValueError struct{ Name string }

// Error implements error.
func (e *NoValueError) Error() string { return fmt.Sprintf("${%s} has no value here", e.Name) }

// Expand puts values in the place of the references of a template and removes the signs that keep
// text from being one. A value is taken as it is, whatever is in it. It returns a [NoValueError]
// for the first reference that value does not know.
func Expand(text string, value func(name string) (string, bool)) (string, error) {
	var b strings.Builder
	last := 0
	for _, m := range reference.FindAllStringSubmatchIndex(text, -1) {
		signs, name := m[3]-m[2], text[m[4]:m[5]]
		b.WriteString(text[last:m[2]] + strings.Repeat("$", signs/2))
		last = m[1]
		if signs%2 == 0 {
			b.WriteString("{" + name + "}")
			continue
		}
		known, ok := value(name)
		if !ok {
			return "", &NoValueError{name}
		}
		b.WriteString(known)
	}
	b.WriteString(text[last:])
	return b.String(), nil
}

// Builder makes a template of text and references, in their order. The zero value is empty.
type Builder struct {
	done    strings.Builder
	literal strings.Builder
}

// Literal adds text that stands for itself.
func (b *Builder) Literal(text string) { b.literal.WriteString(text) }

// Reference adds a reference; its name must be [Known].
func (b *Builder) Reference(name string) {
	text := b.literal.String()
	signs := len(text) - len(strings.TrimRight(text, "$"))
	b.flush()
	b.done.WriteString(strings.Repeat("$", signs) + "${" + name + "}")
}

func (b *Builder) flush() {
	b.done.WriteString(Escape(b.literal.String()))
	b.literal.Reset()
}

// String returns the template.
func (b *Builder) String() string {
	b.flush()
	return b.done.String()
}
