package jobspec

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// CheckText returns the fault of a text as a [Problem] without a path, or nil. A text has at most
// most bytes of UTF-8, and no NUL, because a program cannot get one.
func CheckText(text string, most int) error {
	switch {
	case len(text) > most:
		return Problem{Code: CodeTooLarge, Text: fmt.Sprintf("%d bytes are too many: at most %d", len(text), most)}
	case strings.IndexByte(text, 0) >= 0:
		return Problem{Code: CodeText, Text: "the text has a NUL byte"}
	case !utf8.ValidString(text):
		return Problem{Code: CodeText, Hint: "write it in UTF-8, or let a script find the file",
			Text: fmt.Sprintf("the text is not in UTF-8: %q", text[:min(len(text), 60)])}
	}
	return nil
}

// ValidName reports whether name can name a job, group, task, queue or account. Such a name has 1
// to 63 letters, digits, dots, underscores and hyphens, with a letter or digit at both ends.
func ValidName(name string) bool {
	if len(name) == 0 || len(name) > 63 {
		return false
	}
	for i := range len(name) {
		inner := i > 0 && i < len(name)-1
		if c := name[i]; !isLetter(c) && !isDigit(c) && !(inner && (c == '.' || c == '_' || c == '-')) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

var toVariable = strings.NewReplacer("-", "_", ".", "_")

// Variable returns a name in the form for environment variables: RUN_ID for run-id.
func Variable(name string) string { return strings.ToUpper(toVariable.Replace(name)) }

// ValidVariable reports whether name can name an environment variable: letters, digits and
// underscores, with no digit in front.
func ValidVariable(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && c != '_' && !(isDigit(c) && i > 0) {
			return false
		}
	}
	return name != ""
}

// ShellFunction returns the name of the function that an environment variable holds. Bash passes an
// exported function on as BASH_FUNC_NAME%%; versions before 4.4 wrote BASH_FUNC_NAME(). The second
// result is false for other variables.
func ShellFunction(variable string) (name string, ok bool) {
	name, ok = strings.CutPrefix(variable, "BASH_FUNC_")
	if !ok {
		return "", false
	}
	plain := strings.TrimSuffix(strings.TrimSuffix(name, "%%"), "()")
	if plain == name || plain == "" || len(plain) > 255 {
		return "", false
	}
	for i := range len(plain) {
		if c := plain[i]; c <= ' ' || c > '~' || strings.IndexByte("=%()", c) >= 0 {
			return "", false
		}
	}
	return plain, true
}

// ValidExport reports whether a variable of this name can be copied from the submit host. It is a
// variable of programs, or an exported function of bash.
func ValidExport(name string) bool {
	_, function := ShellFunction(name)
	return function || ValidVariable(name)
}

// ValidParameter reports whether name can name a parameter of an array: at most 63 small letters,
// digits and underscores, with a letter in front.
func ValidParameter(name string) bool { return parameterName.MatchString(name) }

var parameterName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
