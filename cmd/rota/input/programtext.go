package input

import (
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/jobspec"
)

// The text of a job's programs, which is the scripts and command lines of all tasks, says which
// variables and shell functions they use.

// alwaysCopied are functions that a star copies although the script does not call them. A file that
// the script reads may call them.
var alwaysCopied = []string{"module", "ml"}

// programText returns the text of a job's scripts and commands, without lines that are comments.
func programText(job *jobspec.Job) string {
	var b strings.Builder
	for t := range tasksOf(job) {
		for line := range strings.Lines(t.Script) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				b.WriteString(line)
			}
		}
		b.WriteString("\n" + strings.Join(t.Command, " ") + "\n")
		for _, value := range t.Env {
			b.WriteString(value + "\n")
		}
	}
	return b.String()
}

// namedIn reports whether a text names a variable before it sets the variable itself.
func namedIn(text, name string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	at := word.FindStringIndex(text)
	if at == nil {
		return false
	}
	value, assigned := strings.CutPrefix(text[at[1]:], "=")
	value = value[:strings.IndexAny(value+"\n", " \t\n;")]
	first := at[0] == 0 || strings.ContainsRune(" \t\n;", rune(text[at[0]-1])) // of a command
	assigned = assigned && first && !strings.HasPrefix(value, "=")
	return !assigned || word.MatchString(value)
}

// functionsFor returns the variables of exported shell functions that a job gets, with the functions'
// bodies. With a star these are the functions that its programs call, directly or through another
// function.
func functionsFor(globs, environ []string, text string) map[string]string {
	type function struct{ variable, body string }
	all := map[string]function{}
	for _, entry := range environ {
		variable, body, _ := strings.Cut(entry, "=")
		if name, ok := jobspec.ShellFunction(variable); ok {
			all[name] = function{variable, body}
		}
	}
	out := map[string]string{}
	if len(all) == 0 || !slices.Contains(globs, "*") && !slices.Contains(globs, "BASH_ENV") {
		return out
	}
	calls := slices.Concat(alwaysCopied, slices.Collect(wordsOf(text)))
	for len(calls) > 0 {
		f, ok := all[calls[0]]
		calls = calls[1:]
		if _, done := out[f.variable]; ok && !done {
			out[f.variable] = f.body
			calls = slices.AppendSeq(calls, wordsOf(f.body))
		}
	}
	return out
}

// wordsOf yields the words of a text that may be names of functions.
func wordsOf(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n;|&(){}<>\"'`$=!,", r) })
}

// assignment matches a literal that is given to a variable in a shell function.
var assignment = regexp.MustCompile(`(?m)(?:^|[\s;])([A-Za-z_]\w*)=["']?[^\s;"'$` + "`" + `(]`)

// holdsSecret reports whether the body of a shell function may hold a secret.
func holdsSecret(body string) bool {
	return secretValue.MatchString(body) || slices.ContainsFunc(assignment.FindAllStringSubmatch(body, -1),
		func(m []string) bool { return isSecret(m[1], "") })
}

// pathsIn returns the absolute paths in values. A value is such a path, or a list of them with colons.
func pathsIn(values []string) []string {
	paths := map[string]bool{}
	for _, value := range values {
		var own []string
		for p := range strings.SplitSeq(value, ":") {
			if p != "" && !filepath.IsAbs(p) || strings.IndexByte(p, 0) >= 0 {
				own = nil
				break
			}
			if p != "" {
				own = append(own, p)
			}
		}
		for _, p := range own {
			paths[p] = true
		}
	}
	return slices.Collect(maps.Keys(paths))
}

// pathsWait is how long a submission waits for the file servers of the paths in its environment.
const pathsWait = 2 * time.Second

// existing returns which paths are directories or regular files. A path whose file server does not
// answer in time counts as one, because it may be there on the nodes.
func existing(paths []string) map[string]bool {
	type answer struct {
		path string
		is   bool
	}
	answers := make(chan answer, len(paths))
	there := make(map[string]bool, len(paths))
	for _, p := range paths {
		there[p] = true
		go func() {
			info, err := os.Stat(p)
			answers <- answer{p, err == nil && (info.IsDir() || info.Mode().IsRegular())}
		}()
	}
	late := time.NewTimer(pathsWait)
	defer late.Stop()
	for range paths {
		select {
		case a := <-answers:
			there[a.path] = a.is
		case <-late.C:
			return there
		}
	}
	return there
}
