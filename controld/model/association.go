package model

// Association is a user in an account: what holdings and usage belong to.
type Association struct {
	Account string `json:"account"`
	User    string `json:"user"`
}

const (
	// maxLeaves bounds the leaves of which usage is kept: with all hours, 400 MiB. When there are more, those that have used nothing for a
	// week are forgotten; if all have, what new ones use is not counted until some have not.
	Mib = 1 << 20
)

// Association returns the user and account that a job's holdings belong to.
func (j *Job) Association() Association { return Association{j.Account, j.Owner.User} }

// Active reports whether a job runs, or could if there were room.
func (j *Job) Active() bool { return j.Live() != nil || j.StillToStart() && !IsSetAside(j) }
