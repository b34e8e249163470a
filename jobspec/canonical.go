package jobspec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Canonical returns the job's JSON with defaults filled in. Two jobs with the same meaning have the
// same JSON. It does not change j.
func (j *Job) Canonical() ([]byte, error) {
	full, err := j.Clone()
	if err != nil {
		return nil, err
	}
	full.Default()
	return json.Marshal(full)
}

// Version returns a hash of the job's content, in 64 hexadecimal digits. Host, directory and
// umask of the submission are left out.
func (j *Job) Version() (string, error) {
	bare := *j
	bare.SubmitDir, bare.SubmitHost, bare.Umask = "", "", 0
	text, err := bare.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Clone returns a deep copy of the job.
func (j *Job) Clone() (*Job, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("write job %s: %w", j.Name, err)
	}
	out := new(Job)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("read job %s: %w", j.Name, err)
	}
	return out, nil
}
