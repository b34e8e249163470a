package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// batchSize is how many mutants are built into one test program. Building takes most of the time, so
// each function has its mutants beside it, and an environment variable says which of them is run.
const batchSize = 100

// batchVariable has the number of the mutant to run, from 1.
const batchVariable = "ROTA_MUTANT"

// endsMark is what a mutant says that comes to its end where it should return something: the compiler
// would have refused it.
const endsMark = "rota-mutant-without-result"

// batch is the test programs of all suites with the same mutants in them.
type batch struct {
	programs []string // by suite
	numbers  map[*mutant]int
	broken   map[*mutant]bool
}

// function is where a function that has mutants lies in its file.
type function struct {
	begin, end int  // bytes of the text between its braces
	line       int  // of its first brace
	returns    bool // it has results
	labels     bool // it has labels, which it can have once only
}

// functionOf describes a declared function, nil for one without a body.
func (c *collector) functionOf(d *ast.FuncDecl) *function {
	if d.Body == nil {
		return nil
	}
	f := &function{begin: c.file.Offset(d.Body.Lbrace) + 1, end: c.file.Offset(d.Body.Rbrace),
		line: c.file.Position(d.Body.Lbrace).Line, returns: d.Type.Results != nil}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		_, label := n.(*ast.LabeledStmt)
		f.labels = f.labels || label
		return true
	})
	return f
}

// newBatch builds mutants into programs, but for those that lie outside of functions. Which of them do
// not compile shows on the way.
func (s *suites) newBatch(ctx context.Context, p *source, mutants []*mutant) (*batch, error) {
	b := &batch{numbers: map[*mutant]int{}, broken: map[*mutant]bool{}}
	var in []*mutant
	for i, m := range mutants {
		if m.within != nil && !m.within.labels && !m.changesNothing() {
			in = append(in, m)
			b.numbers[m] = i + 1
		}
	}
	for len(in) > 0 {
		bad, err := s.buildBatch(ctx, p, b, in)
		if err != nil || len(bad) == 0 {
			return b, err
		}
		for _, m := range in {
			if bad[b.numbers[m]] {
				b.broken[m] = true
			}
		}
		in = slices.DeleteFunc(in, func(m *mutant) bool { return b.broken[m] })
	}
	return b, nil
}

// inMutant finds the number of a mutant in what the compiler says.
var inMutant = regexp.MustCompile(`rotamutant(\d+)\.go:\d+`)

// buildBatch builds the programs, and returns the numbers of mutants that do not compile.
func (s *suites) buildBatch(ctx context.Context, p *source, b *batch, in []*mutant) (map[int]bool, error) {
	files := map[string][]*mutant{}
	for _, m := range in {
		files[m.file] = append(files[m.file], m)
	}
	texts := map[string][]byte{filepath.Join(p.dir, "rota_mutant_number.go"): []byte(`package ` + p.name + `

import (
	"fmt"
	"os"
	"strconv"
)

var rotaMutant = func() int { n, _ := strconv.Atoi(os.Getenv("` + batchVariable + `")); return n }()

func rotaMutantEnds() { fmt.Println("` + endsMark + `"); os.Exit(86) }
`)}
	for file, mutants := range files {
		text, err := withMutants(file, mutants, b.numbers)
		if err != nil {
			return nil, err
		}
		texts[file] = text
	}
	overlay, err := s.overlay(texts)
	if err != nil {
		return nil, err
	}
	b.programs = nil
	for i, t := range s.list {
		binary, output, err := s.build(ctx, t.source, fmt.Sprintf("batch%d", i), "-overlay="+overlay, "-gcflags=-e")
		bad := map[int]bool{}
		for _, found := range inMutant.FindAllStringSubmatch(output, -1) {
			n, _ := strconv.Atoi(found[1]) // the pattern has digits only
			bad[n] = true
		}
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && len(bad) > 0 {
			return bad, nil
		} else if err != nil {
			return nil, fmt.Errorf("%w:\n%s", err, output)
		}
		b.programs = append(b.programs, binary)
	}
	return nil, nil
}

// withMutants returns the text of a file whose functions have some mutants beside them.
func withMutants(file string, mutants []*mutant, numbers map[*mutant]int) ([]byte, error) {
	old, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	mutants = slices.Clone(mutants)
	slices.SortStableFunc(mutants, func(a, b *mutant) int { return a.within.begin - b.within.begin })
	var text bytes.Buffer
	at := 0
	for i, m := range mutants {
		f := m.within
		if i == 0 || mutants[i-1].within.begin != f.begin {
			text.Write(old[at:f.begin])
			at = f.begin
		}
		end := "return"
		if f.returns {
			end = "rotaMutantEnds()"
		}
		fmt.Fprintf(&text, "\nif rotaMutant == %d {\n//line rotamutant%d.go:1\n%s%s%s\n%s\n}\n", numbers[m], numbers[m],
			old[f.begin:m.begin], m.is, old[m.end:f.end], end)
		if i+1 == len(mutants) || mutants[i+1].within.begin != f.begin {
			fmt.Fprintf(&text, "\n//line %s:%d\n", file, f.line)
		}
	}
	text.Write(old[at:])
	return text.Bytes(), nil
}
