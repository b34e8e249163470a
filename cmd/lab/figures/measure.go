package main

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"unicode/utf8"
)

// figures are what is counted of one package.
type figures struct {
	name   string
	lines  int
	tokens int // without comments and the semicolons that the scanner puts at the end of lines
	files  int
	cycle  int   // files in the largest reference cycle; 0: no file refers back to another that refers to it
	names  []int // letters of the name of each function and method
	types  []typeFigures
}

// typeFigures are what is counted of one type.
type typeFigures struct {
	name    string // with its package
	methods int
	files   int // that declare the methods
}

func measure(s *source) (figures, error) {
	f := figures{name: s.name, files: len(s.text), cycle: largestCycle(references(s))}
	for file, text := range s.text {
		f.lines += bytes.Count(text, []byte("\n"))
		n, err := countTokens(file, text)
		if err != nil {
			return f, err
		}
		f.tokens += n
	}
	f.names = nameLengths(s.files)
	f.types = countMethods(s)
	return f, nil
}

// countTokens counts the tokens of a file. Comments do not count, nor do semicolons that are not
// written.
func countTokens(name string, text []byte) (int, error) {
	var errs scanner.ErrorList
	fset := token.NewFileSet()
	var sc scanner.Scanner
	sc.Init(fset.AddFile(name, fset.Base(), len(text)), text, errs.Add, 0)
	for n := 0; ; {
		_, t, written := sc.Scan()
		switch {
		case t == token.EOF:
			return n, errs.Err()
		case t == token.SEMICOLON && written == "\n":
		default:
			n++
		}
	}
}

func nameLengths(files []*ast.File) (lengths []int) {
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				lengths = append(lengths, utf8.RuneCountInString(fn.Name.Name))
			}
		}
	}
	return lengths
}

// median returns the middle value, the lower one of two; 0 of none.
func median(values []int) int {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

// countMethods lists the types of a package that have methods, by name.
func countMethods(s *source) []typeFigures {
	methods, files := map[string]int{}, map[string]map[string]bool{}
	for _, f := range s.files {
		file := s.fset.Position(f.Package).Filename
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			name := receiver(fn.Recv.List[0].Type)
			if files[name] == nil {
				files[name] = map[string]bool{}
			}
			methods[name]++
			files[name][file] = true
		}
	}
	var list []typeFigures
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		list = append(list, typeFigures{s.name + "." + name, methods[name], len(files[name])})
	}
	return list
}

// receiver is the name of the type in a receiver: T, *T, T[K] or *T[K].
func receiver(x ast.Expr) string {
	switch t := x.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	}
	return ""
}

// references returns, for each file, the other files of the package that it refers to. A reference
// is to a constant, variable, type, function or method that is declared there. Fields do not count,
// since their type does.
func references(s *source) map[string][]string {
	to := map[string]map[string]bool{}
	for file := range s.text {
		to[file] = map[string]bool{}
	}
	for id, obj := range s.info.Uses {
		if obj.Pkg() != s.types || !isShared(obj) {
			continue
		}
		from := path.Base(s.fset.Position(id.Pos()).Filename)
		if at := path.Base(s.fset.Position(obj.Pos()).Filename); at != from {
			to[from][at] = true
		}
	}
	all := map[string][]string{}
	for file, names := range to {
		all[file] = slices.SortedFunc(maps.Keys(names), cmp.Compare[string])
	}
	return all
}

// isShared reports whether an object is declared at package level or is a method.
func isShared(obj types.Object) bool {
	if fn, ok := obj.(*types.Func); ok && fn.Signature().Recv() != nil {
		return true
	}
	return obj.Parent() == obj.Pkg().Scope()
}

// largestCycle is the size of the largest set of files in which each refers to each other, directly
// or through others. It is a strongly connected component, found by Tarjan's algorithm; 0 if no set
// has two files.
func largestCycle(to map[string][]string) int {
	c := cycles{to: to, index: map[string]int{}, low: map[string]int{}, open: map[string]bool{}}
	for _, file := range slices.Sorted(maps.Keys(to)) {
		if c.index[file] == 0 {
			c.visit(file)
		}
	}
	if c.largest < 2 {
		return 0
	}
	return c.largest
}

// cycles is the state of a search for strongly connected components.
type cycles struct {
	to      map[string][]string
	index   map[string]int // order of the first visit, from 1
	low     map[string]int // least index that is reached
	stack   []string
	open    map[string]bool // files on the stack
	largest int
}

func (c *cycles) visit(file string) {
	c.index[file] = len(c.index) + 1
	c.low[file] = c.index[file]
	c.stack, c.open[file] = append(c.stack, file), true
	for _, next := range c.to[file] {
		switch {
		case c.index[next] == 0:
			c.visit(next)
			c.low[file] = min(c.low[file], c.low[next])
		case c.open[next]:
			c.low[file] = min(c.low[file], c.index[next])
		}
	}
	if c.low[file] != c.index[file] {
		return
	}
	first := slices.Index(c.stack, file)
	for _, member := range c.stack[first:] {
		c.open[member] = false
	}
	c.largest = max(c.largest, len(c.stack)-first)
	c.stack = c.stack[:first]
}
