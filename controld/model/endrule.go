package model

// EndRule names the rule by which an attempt ended as it did. `rota why` says it in words.
type EndRule string

// The rules, in the order in which they are tried.
const (
	RuleLogPolicy   EndRule = "log-policy"   // a log policy decided it
	RuleAsked       EndRule = "asked"        // the job asked for another attempt itself
	RuleOwnExit     EndRule = "own-exit"     // its exit came before the signal of the stop
	RuleNotExecuted EndRule = "not-executed" // stopped before its program was executed
	RuleCancelled   EndRule = "cancelled"    // cancelled, whatever it exited with
	RuleRequeued    EndRule = "requeued"     // requeued from outside, whatever it exited with
	RuleTimeLimit   EndRule = "time-limit"   // its time limit or deadline came
	RuleRequeueCode EndRule = "requeue-code" // it exited with the code that asks for another attempt
	RuleFinished    EndRule = "finished"     // it had to leave, and had said that it is finished
	RuleTotal       EndRule = "total"        // it had to leave, and had reached its last step
	RuleExitZero    EndRule = "exit-zero"    // it had to leave, and 0 means that it is done
	RuleSaved       EndRule = "saved"        // it had to leave, and 0 means that it has saved its state
	RuleDisplaced   EndRule = "displaced"    // it had to leave, and did not succeed
	RuleLost        EndRule = "lost"         // its node or its lease was lost
	RuleExit        EndRule = "exit"         // its programs ended by themselves
)

// Text says what a rule means, after "attempt N ended: ".
func (r EndRule) Text() string { return ruleText[r] }

var ruleText = map[EndRule]string{
	RuleLogPolicy:   "a log policy decided it",
	RuleAsked:       "it asked for another attempt itself",
	RuleOwnExit:     "its programs exited before the signal of the stop reached them, so that the exit is their own",
	RuleNotExecuted: "it was stopped before its program was executed, so that it has not succeeded",
	RuleCancelled:   "it was cancelled, and the exit after the signal does not count",
	RuleRequeued:    "it was to be requeued, and the exit after the signal does not count",
	RuleTimeLimit:   "its time was over, and the exit after the signal does not count",
	RuleRequeueCode: "it exited with the code that asks for another attempt",
	RuleFinished:    "it had to leave and exited with 0, and had said that it is finished",
	RuleTotal:       "it had to leave and exited with 0, and had reached its last step (progress.total)",
	RuleExitZero:    "it had to leave and exited with 0, which completes a job without a checkpoint block",
	RuleSaved:       "it had to leave and exited with 0, but has only saved its state: it never said that it is finished",
	RuleDisplaced:   "it had to leave, and any exit but 0 puts it back",
	RuleLost:        "its node or its lease was lost",
	RuleExit:        "its programs ended by themselves",
}
