package model

// Association is a user in an account: what holdings and usage belong to.
type Association struct {
	Account string `json:"account"`
	User    string `json:"user"`
}

// Mib is one MiB in bytes.
const Mib = 1 << 20

// Association returns the user and account that a job's holdings belong to.
func (j *Job) Association() Association { return Association{j.Account, j.Owner.User} }

// Active reports whether a job runs, or could if there were room.
func (j *Job) Active() bool { return j.Live() != nil || WantsRoom(j) }
