package jobspec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Canonical returns the job's JSON with its defaults filled in: jobs that ask for the same have the
// same. j stays as it is.
func (j *Job) Canonical() ([]byte, error) {
	full, err := j.Clone()
	if err != nil {
		return nil, err
	}
	full.Default()
	return json.Marshal(full)
}

// Version names what the job asks for, in 64 hexadecimal digits. From where it was submitted does
// not count.
func (j *Job) Version() (string, error) {
	bare := *j
	bare.SubmitDir, bare.SubmitHost = "", ""
	text, err := bare.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Clone returns a job that shares nothing with j.
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
