package jobspec

// Codes of the rules that [Job.Validate] checks. Each keeps its meaning for ever; those of the language itself are JS-001 to JS-050
// in hclfile.
const (
	CodeUnsupported = "JS-050" // a part of the language that this version does not honour
	CodeRequired    = "JS-110" // something that every job needs is missing
	CodeName        = "JS-111" // not a name
	CodeRange       = "JS-112" // a number, duration or size out of bounds
	CodeChoice      = "JS-113" // not one of a closed list of words
	CodePath        = "JS-114" // not an absolute path, or one that may not be used here
	CodeProgram     = "JS-115" // not exactly one of command, script and script_file
	CodeConflict    = "JS-116" // two settings that exclude or need each other
	CodeTooLarge    = "JS-117" // too many entries or too much text
	CodeSignal      = "JS-118" // not a signal
	CodeText        = "JS-119" // text that cannot be passed on: a bad variable name, a NUL byte, a bad pattern
	CodeDuplicate   = "JS-120" // the same thing twice
)

// Problem is one rule that a job breaks.
type Problem struct {
	Code string `json:"code"`
	Path string `json:"path"` // into the job's JSON: groups[0].tasks[0].resources.gpus
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"` // what to do about it
}

// Error implements error: where, what, and what to do, on one line.
func (p Problem) Error() string {
	text := p.Text + " (" + p.Code + ")"
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	return text
}
