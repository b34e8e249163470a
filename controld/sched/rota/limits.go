package rota

import "github.com/rota-hpc/rota/controld/model"

// Bounds of the work of one cycle. They decide nothing but how soon a job is looked at.
const (
	maxCallers  = 64                    // jobs of each class for which room is sought
	maxElastic  = 64                    // waiting elastic jobs
	maxPairs    = 1 << 15               // pairs of a job and a node that one choice looks at
	maxRepairs  = 8                     // victims, then accounts, that are left out because their account lends no more
	maxMoves    = 16                    // jobs that move for one
	checkEvery  = model.Instant(60_000) // ms between looks at best-effort jobs that could leave
	growRecheck = int64(60_000)         // ms until it is checked again whether more workers pay
)

// Numbers that no configuration changes, or defaults of the policy block.
const (
	preemptsPerDay = 3              // of one job, if the policy block has no p
	headroomPM     = 50             // thousandths of all GPUs, if the policy block has no headroom
	borrowPM       = 100            // thousandths of a quota, if the policy block has no te_borrow
	smallCluster   = 32             // GPUs, or cores: on fewer, the room of one job is a good part, and none is left free
	oneWorkerPart  = 4              // workers that ask for more than one in so many parts of the headroom do not count
	missedPart     = 20             // one in so many workers, the most demanding ones, may find less headroom
	soonTimes      = 2              // times the arrivals of a minute: nodes that should be able to take one soon
	unknownMS      = 10 * 60 * 1000 // ms: least assumed need of a job of unknown kind, to be worth a stop
	briefMS        = 30 * 60 * 1000 // ms: a trial-and-error job that has run for longer is not expected to end soon
	arrivals       = 60 * 60 * 1000 // ms for which new jobs are expected after the last one
	scantPart      = 4              // an elastic job that would start with less than one part gets room from others
	growsByPM      = 1100           // thousandths: a running job grows only if its speed rises to this
)
