job "a" {
  time_limit = "1h"
}
