package submit

import (
	"fmt"
	"strings"
)

// aboutSpec is about for a job that has no number yet.
func aboutSpec(verb, name string, err error) error {
	if strings.HasPrefix(err.Error(), fmt.Sprintf("job %q: ", name)) {
		return err
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}
