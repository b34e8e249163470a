package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// StreamJobs asks for a list of jobs of any length in one answer and returns it as it arrives. The
// answer is a List[Job] in JSON, each item on a line of its own. The caller closes it. Limit and
// Page of the filter do not count.
func (c *Client) StreamJobs(ctx context.Context, f JobFilter, read Read) (io.ReadCloser, Answer, error) {
	q := call{method: http.MethodGet, path: "/v1/jobs", query: f.values(), repeat: true, stream: true}
	read.into(&q)
	q.query.Del("limit")
	q.query.Del("page")
	q.query.Set("stream", "true")
	resp, err := c.roundTrip(ctx, q)
	if err != nil {
		return nil, Answer{}, err
	}
	return resp.Body, answerOf(resp.Header), nil
}

// EachJob visits every job of a list of any length as it comes. A visited job is the next one once
// visit has returned; what it points to is not used again.
func (c *Client) EachJob(ctx context.Context, f JobFilter, read Read, visit func(*Job) error) (Answer, error) {
	body, answer, err := c.StreamJobs(ctx, f, read)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	lines := bufio.NewReaderSize(body, 1<<16)
	var job Job
	if _, err := lines.ReadSlice('\n'); err != nil {
		return answer, c.cut(err)
	}
	for {
		line, err := readLine(lines)
		if err != nil {
			return answer, c.cut(err)
		}
		if len(line) == 0 {
			continue // of an empty list
		}
		if string(line) == "]}" {
			return answer, nil
		}
		if err := readJob(bytes.TrimSuffix(line, []byte(",")), &job); err != nil {
			return answer, fmt.Errorf("GET /v1/jobs: cannot read the answer: %w", err)
		}
		if err := visit(&job); err != nil {
			return answer, err
		}
	}
}

// readJob reads a job into one that may hold another. Members that this version does not know are
// passed over.
func readJob(text []byte, job *Job) error {
	*job = Job{}
	return json.Unmarshal(text, job)
}

// readLine returns the next line of any length without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		whole := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = r.ReadSlice('\n')
			whole = append(whole, line...)
		}
		line = whole
	}
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// cut is the error for an answer that ends in the middle.
func (c *Client) cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &UnreachableError{Addrs: c.Addrs(), Err: err}
}
