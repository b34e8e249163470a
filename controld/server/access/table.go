package access

import (
	"github.com/rota-hpc/rota/controld/model/cluster"
)

const family = Owner | Coordinator // of a job

// Parts of routes. A part is for only some of the callers of a route. Handlers ask for parts, and
// for nothing else.
var (
	// PartDetails is what present.Redact takes away.
	PartDetails = &Part{Name: "command, script, environment, secrets, paths, parameters, output of a job",
		Roles: family | Operator}
	PartJobs   = otherJobs()
	PartEnded  = otherJobs(cluster.PrivateUsage)
	PartEvents = otherJobs(cluster.PrivateEvents)
	PartNodes  = &Part{Name: "events of nodes", Roles: User | Operator,
		Private: []string{cluster.PrivateEvents}}
	PartAct     = &Part{Name: "each job of the selection", Roles: family | Operator}
	PartHold    = &Part{Name: "a hold that the owner cannot end", Roles: Coordinator | Operator}
	PartRelease = &Part{Name: "a job that an operator holds", Roles: Coordinator | Operator}
	PartBeyond  = &Part{Name: "a time limit above the queue's maximum, or a longer one while the job runs",
		Roles: Operator}
	PartDepend = &Part{Name: "a dependency on a job of another user", Roles: Operator}
	PartUsage  = &Part{Name: "shares of other users",
		Roles: User | Coordinator | Operator, Private: []string{cluster.PrivateUsage}}
	PartTokens = &Part{Name: "API tokens of other users, but not of root", Roles: Admin}
	PartAudit  = &Part{Name: "requests of other users", Roles: Admin}

	PartFigures = &Part{Name: "figures of accounts", Roles: Local | Members | Operator,
		Private: []string{cluster.PrivateAccounts, cluster.PrivateUsage}}
	PartAccounts = &Part{Name: "accounts that the user is not in",
		Roles: User | Coordinator | Operator, Private: []string{cluster.PrivateAccounts}}
)

// otherJobs is the part of an answer that is about jobs of other users. It is private with the jobs
// themselves.
func otherJobs(words ...string) *Part {
	return &Part{Name: "jobs of other users", Roles: User | family | Operator,
		Private: append([]string{cluster.PrivateJobs}, words...)}
}

// Rules of routes. Each route is registered with one of them.
var (
	ForUsers       = Rule{Roles: User}
	ForOperators   = Rule{Roles: Operator}
	ForAdmins      = Rule{Roles: Admin}
	ForItself      = Rule{Roles: Node, About: OneNode}
	ForMembers     = Rule{Roles: Members}
	ForControllers = Rule{Roles: Controller}
	ForAnyone      = Rule{Roles: Anyone}
	ActOnJob       = Rule{Roles: family | Operator, About: OneJob}
	// what runs in the name of the job's user
	OfOwner = Rule{Roles: Owner, About: OneJob}
	SeeJob  = Rule{Roles: User | family | Operator, About: OneJob,
		Private: []string{cluster.PrivateJobs}}
	SeeNodes = Rule{Roles: User | Operator, About: ManyJobs,
		Private: []string{cluster.PrivateNodes}}
	SeeAccounts = Rule{Roles: User, About: Accounts}
	SeeFigures  = Rule{Roles: Local | Members | Operator}
	SeeJobs     = Rule{Roles: User, About: ManyJobs}
)
