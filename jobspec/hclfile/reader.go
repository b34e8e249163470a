// Package hclfile loads files in HCL: variables, locals, functions, a schema of known names, and
// diagnostics that show the place. It knows no job; jobspec/jobfile gives it the schema of one, and
// the daemons decode their configuration with [Decode].
package hclfile

import (
	"bytes"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/rota-hpc/rota/jobspec/hclfile/cost"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/hclfile/functions"
)

// Limits of a file. The parser recurses and the evaluator multiplies, so their input is bounded
// first.
const (
	MaxFileBytes = 2 << 20 // a script of 1 MiB and its job fit
	maxTokens    = 100_000
	maxDepth     = 64      // of brackets, braces and templates within each other
	maxSigns     = 16      // ! and - in front of one value
	maxWork      = 8 << 20 // elements and bytes that all expressions of a file may yield
	maxLocals    = 1000
	maxVariables = 256
)

// Options say where values come from. The zero value offers none: no files, no environment.
type Options struct {
	Vars      map[string]string                 // values by name; strongest
	VarFiles  []string                          // files of values, in HCL or JSON, read with ReadVars; a later one wins
	Getenv    func(name string) (string, bool)  // ROTA_VAR_name, and env() for AllowEnv
	AutoFiles []string                          // files of values that yield to the environment
	AllowEnv  []string                          // names that env() may read
	ReadFile  func(name string) ([]byte, error) // file() and script_file: name is clean, relative and without ".."
	ReadVars  func(name string) ([]byte, error) // reads VarFiles and AutoFiles
	Now       func() time.Time                  // for timestamp(); asked once
	NewUUID   func() string                     // for uuid(); asked each time
	// Quantities are functions that turn a text with a unit into a number: duration("1h").
	Quantities map[string]func(text string) (int64, error)
}

// Result has the places and the sensitive values of a decoded file.
type Result struct {
	places map[string]hcl.Range
	whole  hcl.Range
	reader *reader
}

type reader struct {
	name    string
	src     []byte
	sources map[string][]byte
	opts    Options
	diags   diagnostic.Diagnostics
	told    map[told]bool
	// mistakes counts all mistakes, also those that are not reported.
	mistakes int
	places   map[string]hcl.Range

	vars      map[string]cty.Value
	locals    map[string]cty.Value
	varBlocks map[string]*hclsyntax.Block
	pending   map[string]*hclsyntax.Attribute // locals not yet computed
	visiting  []string                        // locals being computed
	functions map[string]function.Function
	meter     *cost.Meter
	refused   int // expressions that the meter had not enough for
	facts     map[string]facts
	read      map[string][]byte // by name

	schema    *Block
	sensitive map[string]bool // names of variables
	secret    secrets
	iterators []iterator // of the dynamic blocks around
	made      int        // blocks made by dynamic ones
	now       current
	scope     *templateScope // nil: nothing around can hold references
}

// Load parses a file, evaluates its variables and locals, and stores the rest in target as schema
// says. It goes on after an error, so that all errors are reported. target is valid only if there
// are no diagnostics.
func Load(name string, src []byte, schema *Block, target any, opts Options) (*Result, diagnostic.Diagnostics) {
	r := newReader(name, src)
	r.schema, r.opts = schema, opts
	r.functions = r.meter.Functions(functions.Table(functions.Environment{
		ReadFile: r.ReadFile, Getenv: r.env, Now: opts.Now, NewUUID: opts.NewUUID, Quantities: opts.Quantities,
	}))
	whole := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	if body := r.parse(name, src, schema, false); body != nil {
		whole = r.lastPlace()
		rest := r.takeDeclarations(body)
		r.evaluateDeclarations()
		r.decodeBody(rest, schema, target, "")
	}
	return &Result{places: r.places, whole: whole, reader: r}, r.diags.InOrder()
}

func newReader(name string, src []byte) *reader {
	return &reader{
		name: name, src: src, sources: map[string][]byte{name: src}, told: map[told]bool{}, places: map[string]hcl.Range{},
		vars: map[string]cty.Value{}, locals: map[string]cty.Value{}, varBlocks: map[string]*hclsyntax.Block{},
		pending: map[string]*hclsyntax.Attribute{}, facts: map[string]facts{}, read: map[string][]byte{},
		sensitive: map[string]bool{}, secret: secrets{paths: map[string]bool{}}, meter: cost.NewMeter(maxWork),
	}
}

// lastPlace returns the end of the text, where missing blocks are reported.
func (r *reader) lastPlace() hcl.Range {
	text := bytes.TrimRight(r.src, " \t\r\n")
	start := bytes.LastIndexByte(text, '\n') + 1
	column := utf8.RuneCount(text[start:]) + 1
	at := hcl.Pos{Line: bytes.Count(text, []byte("\n")) + 1, Column: column, Byte: len(text)}
	return hcl.Range{Filename: r.name, Start: at, End: at}
}

const byteOrderMark = "\xef\xbb\xbf"

// UnixText returns a text without a byte order mark and with the line ends of Unix. Shells cannot
// read those of Windows.
func UnixText(src []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimPrefix(src, []byte(byteOrderMark)), []byte("\r\n"), []byte("\n"))
}

// parse returns the body of a file, nil if it cannot be parsed. In JSON, schema says which names
// are blocks, and values says that strings are literal.
func (r *reader) parse(name string, src []byte, schema *Block, values bool) *hclsyntax.Body {
	r.sources[name] = src
	if !r.readable(name, src) {
		return nil
	}
	src = UnixText(src)
	r.sources[name] = src
	if name == r.name {
		r.src = src
	}
	if IsJSON(name, src) {
		return r.parseJSON(name, src, schema, values)
	}
	if !r.shallow(name, src) {
		return nil
	}
	file, found := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if found.HasErrors() {
		r.hideUnread(name, src)
		r.addHCL(diagnostic.CodeSyntax, syntaxHint(found), found)
		return nil
	}
	return file.Body.(*hclsyntax.Body)
}

func syntaxHint(found hcl.Diagnostics) string {
	for _, one := range found {
		if one.Summary == "Missing newline after argument" || one.Summary == "Invalid number literal" {
			return `durations, sizes and other texts need quotes: time_limit = "1h"`
		}
		if one.Summary == "Invalid template control keyword" {
			return "write %%{ for a %{ that is meant literally"
		}
	}
	return ""
}

func (r *reader) readable(name string, src []byte) bool {
	start := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	if len(src) > MaxFileBytes {
		r.add(start, diagnostic.CodeLimit, "move data into files of their own", "the file has %d bytes; at most %d are read",
			len(src), MaxFileBytes)
		return false
	}
	valid := utf8.Valid(src)
	if valid && bytes.IndexByte(src, 0) < 0 {
		return true
	}
	line, offset, text := 1, 0, "the file has a NUL byte"
	for offset < len(src) {
		c, size := utf8.DecodeRune(src[offset:])
		if c == utf8.RuneError && size == 1 {
			text = fmt.Sprintf("the file is not UTF-8 text: byte 0x%02x", src[offset])
			break
		}
		if c == 0 {
			break
		}
		if c == '\n' {
			line++
		}
		offset += size
	}
	column := utf8.RuneCount(src[bytes.LastIndexByte(src[:offset], '\n')+1:offset]) + 1
	start.Start = hcl.Pos{Line: line, Column: column, Byte: offset}
	start.End = start.Start
	r.add(start, diagnostic.CodeEncoding, "save the file as UTF-8 text", "%s", text)
	return false
}

// shallow refuses nesting that is too deep for the recursive parser.
func (r *reader) shallow(name string, src []byte) bool {
	return r.shallowTokens(tokensOf(src, name, hcl.InitialPos, hclsyntax.LexConfig))
}

// lexer is a function of package hclsyntax that divides a text into words.
type lexer func(src []byte, name string, start hcl.Pos) (hclsyntax.Tokens, hcl.Diagnostics)

// tokensOf returns the words of a text, or more than maxTokens of them. A word takes 112 bytes, and
// may be a single byte of the text. Lexing therefore tries larger and larger parts of the text. A
// text with too many words costs only the first part that exceeds the limit.
func tokensOf(src []byte, name string, start hcl.Pos, lex lexer) hclsyntax.Tokens {
	const step = 192 << 10
	for n := step; n < len(src); n += step {
		if tokens, _ := lex(src[:n], name, start); len(tokens) > maxTokens+cutTokens {
			return tokens
		}
	}
	tokens, _ := lex(src, name, start)
	return tokens
}

// cutTokens is more words than a text can have only because it was cut: the rest of a word, and the
// end.
const cutTokens = 8

func (r *reader) shallowTokens(tokens hclsyntax.Tokens) bool {
	if len(tokens) > maxTokens {
		r.add(tokens[maxTokens].Range, diagnostic.CodeLimit, "move data into files of their own",
			"the file has more than %d words", maxTokens)
		return false
	}
	depth, signs := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
			hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			depth--
		}
		if t.Type == hclsyntax.TokenBang || t.Type == hclsyntax.TokenMinus {
			signs++
		} else {
			signs = 0
		}
		if depth > maxDepth || signs > maxSigns {
			r.add(t.Range, diagnostic.CodeLimit, "put parts of it into locals",
				"brackets or signs are nested more than %d and %d deep", maxDepth, maxSigns)
			return false
		}
	}
	return true
}

// At makes a diagnostic at the place where a path of the target's JSON was written, or at the
// nearest thing around it. If the value is sensitive, neither text nor hint is shown.
func (f *Result) At(path, code, text, hint string) diagnostic.Diagnostic {
	at, whole := f.whole, path
	for path != "" {
		if place, ok := f.places[path]; ok {
			at = place
			break
		}
		path = parentPath(path)
	}
	if f.reader.isSecret(whole) {
		text, hint = secretRefused, ""
	}
	return f.reader.diagnostic(at, code, hint, text)
}

// secretRefused is the message for a sensitive value that breaks a rule.
const secretRefused = "the value is refused; it is sensitive, so neither the value nor the rule is shown"

func parentPath(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' || path[i] == '[' {
			return path[:i]
		}
	}
	return ""
}
