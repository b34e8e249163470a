package directory

import (
	"slices"
	"time"
)

// AnswerWithin is how long a caller waits for an answer of the directory.
const AnswerWithin time.Duration = answerWithin

// Services lists the services that nsswitch.conf asks for users beside the files of the machine.
func (d *Directory) Services() ([]string, error) {
	all, err := d.services("passwd")
	return slices.DeleteFunc(slices.Clone(all), isFiles), err
}

// Silent returns an error, which wraps [ErrNoAnswer], if a service that may know users does not listen.
func (d *Directory) Silent() error { return d.silentService("passwd") }

// Local returns the users of the file of the machine, in its order.
func (d *Directory) Local() ([]User, error) {
	var list []User
	err := d.eachLine("passwd", func(line string) bool {
		if u, ok := parseUser(line); ok {
			list = append(list, u)
		}
		return true
	})
	return list, err
}

// LocalGroups returns the numbers of the groups that the file of groups lists a user in.
func (d *Directory) LocalGroups(name string) ([]uint32, error) { return d.memberships(name) }

// ParseUser reads a line of passwd(5), as getent prints it.
func ParseUser(line string) (User, bool) { return parseUser(line) }

// ParseGroups reads an answer of getent about the groups of a user.
func ParseGroups(name, line string) []uint32 { return groupsIn(name, line) }
