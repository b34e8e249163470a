package jobspec

// Codes of the rules that package jobspec/rules checks. Each keeps its meaning for ever; those of
// the language itself are JS-001 to JS-050 in hclfile/diagnostic.
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

	CodeTime          = "JS-121" // not a time
	CodeDeadline      = "JS-122" // a deadline that cannot be met
	CodeDependsOn     = "JS-123" // depends_on that names no group, or no condition
	CodeGroupCycle    = "JS-124" // groups that wait for each other
	CodeScope         = "JS-125" // several groups in a way that cannot be started
	CodeLeader        = "JS-126" // not one main task that leads
	CodeLifecycle     = "JS-127" // a task's lifecycle that cannot be
	CodeNoGPUs        = "JS-128" // GPUs are needed and none asked for
	CodeArray         = "JS-129" // not exactly one of indices, matrix and file
	CodeIndices       = "JS-130" // indices that cannot be read
	CodeIndexOrder    = "JS-131" // indices that do not ascend, or repeat
	CodeElements      = "JS-132" // too many elements, or none
	CodeParameter     = "JS-133" // a parameter of an array that is badly named or has no values
	CodePattern       = "JS-134" // not a regular expression
	CodeAttribute     = "JS-135" // a constraint on what nodes do not have
	CodeOperator      = "JS-136" // no operator, or not for this attribute
	CodeConstraint    = "JS-137" // a constraint's value that its operator cannot compare
	CodeKeep          = "JS-138" // keep that says neither a share nor a number
	CodeStop          = "JS-139" // a stop rule that nothing feeds
	CodeDependency    = "JS-140" // not an id or name of a job
	CodeDependencyUse = "JS-141" // a dependency whose type does not fit the rest
	CodeNoParameter   = "JS-142" // a reference to a parameter that the array does not have
	CodeNodeNames     = "JS-143" // not a list of nodes
	CodeSecret        = "JS-144" // a secret without a place, or with two
	CodeProgress      = "JS-145" // progress that is read in two ways, or in none
	CodeTryTooMuch    = "JS-190" // warning: more than a trial-and-error job gets in most queues
	CodeNoTrap        = "JS-191" // warning: a grace period that nothing uses
	CodeNoPath        = "JS-192" // warning: a checkpoint without its place
	CodeForgetful     = "JS-193" // warning: an elastic group that begins anew with each resize
	CodeOneLog        = "JS-194" // warning: a log that several workers or elements write
	CodeAlikeOnNode   = "JS-195" // warning: workers on one node that torchrun cannot tell apart
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
