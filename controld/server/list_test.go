package server

import (
	"testing"
)

func TestAFieldThatIsNamedTwiceIsThereOnce(t *testing.T) {
	if fields, err := fieldsOf([]string{"id", "name", "id"}); err != nil || len(fields) != 2 {
		t.Errorf("%v, %v", fields, err)
	}
}
