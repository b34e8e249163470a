package reconcile

import (
	"github.com/rota-hpc/rota/controld/model"
)

// Kind is the kind of an action. Logs show it.
type Kind string

// The actions. Each is idempotent: repeated after a crash it changes nothing, or continues where it
// was.
const (
	None   Kind = ""
	Leave  Kind = "leave" // end a worker that held room for steps, none of which runs any more
	Tell   Kind = "tell"  // ask the steps of a worker that has ended to end too
	Fetch  Kind = "fetch" // make the folder of its checkpoint
	Create Kind = "create"
	Start  Kind = "start"
	Stop   Kind = "stop"  // write the notice and send the signal
	Save   Kind = "save"  // save its processes, and end them
	Early  Kind = "early" // the same before the time limit, which stops nothing
	Warn   Kind = "warn"  // write the notice of an excess, or take it back
	Evict  Kind = "evict" // write down that it is killed for an excess
	Kill   Kind = "kill"
	Switch Kind = "switch" // have it pause, or go on with cores of its own
	Yield  Kind = "yield"  // give its cores back, when it has paused
	Finish Kind = "finish" // write its result to the journal
	Remove Kind = "remove" // remove all that is left of it but its log
	Forget Kind = "forget" // remove an intent whose container never ran
)

// Action is the due action of a container.
type Action struct {
	Kind   Kind
	Result model.WorkerReport // of Finish, without its ids
}
