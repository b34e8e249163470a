package model

// EndRule names the rule that decided how an attempt ended. `rota why` explains it in a sentence.
type EndRule string

// The rules, in the order in which they are checked.
const (
	RuleLogPolicy   EndRule = "log-policy"   // a log policy decided it
	RuleAsked       EndRule = "asked"        // the job itself requested another attempt
	RuleOwnExit     EndRule = "own-exit"     // it exited before the stop signal reached it
	RuleNotExecuted EndRule = "not-executed" // it was stopped before its program started
	RuleCancelled   EndRule = "cancelled"    // it was cancelled; the exit code does not matter
	RuleRequeued    EndRule = "requeued"     // a user requeued it; the exit code does not matter
	RuleTimeLimit   EndRule = "time-limit"   // it reached its time limit or deadline
	RuleRequeueCode EndRule = "requeue-code" // it exited with the code that requests another attempt
	RuleFinished    EndRule = "finished"     // told to stop, it had reported that it is finished
	RuleTotal       EndRule = "total"        // told to stop, it had reached its last step
	RuleExitZero    EndRule = "exit-zero"    // told to stop, it exited with 0, which means done
	RuleSaved       EndRule = "saved"        // told to stop, it exited with 0, which means that its state is saved
	RuleDisplaced   EndRule = "displaced"    // told to stop, it did not succeed
	RuleLost        EndRule = "lost"         // its node or its lease was lost
	RuleExit        EndRule = "exit"         // its programs ended by themselves
)

// Text completes "attempt N ended: ".
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
