package tools

import (
	"regexp"
	"slices"

	"github.com/drey-state/drey/storage"
)

// fixedJobID is an id that Flink derives from the name of a cluster when it runs one application with high
// availability: other clusters may have jobs of the same id.
var fixedJobID = regexp.MustCompile(`^(0{16}[0-9a-f]{16}|[0-9a-f]{16}0{16})$`)

// entropy is where the random characters of entropy injection stand in directories of a job: at an offset,
// so many bytes, which may include one slash at their end or beginning. The directory with the metadata has none of them.
type entropy struct{ offset, length int }

var entropyPattern = regexp.MustCompile(`^(/[0-9A-Za-z]+|[0-9A-Za-z]+/?)$`)

// cut takes the random characters out of a directory, false if there are none.
func (e entropy) cut(dir string) (string, bool) {
	end := e.offset + e.length
	if end > len(dir) || !entropyPattern.MatchString(dir[e.offset:end]) {
		return "", false
	}
	return dir[:e.offset] + dir[end:], true
}

// learnEntropy says whether a directory, in which files of the job's checkpoints lie, is one that entropy
// injection made for it, and learns where the random characters stand.
func (j *AuditJob) learnEntropy(dir string) bool {
	length := len(dir) - len(j.Dir)
	if length <= 0 || storage.Base(dir) != storage.Base(j.Dir) {
		return false
	}
	if j.hasEntropyPart(dir) {
		return true
	}
	_, _, path := storage.Split(j.Dir)
	for offset := len(j.Dir) - len(path); offset < len(j.Dir); offset++ {
		e := entropy{offset, length}
		if whole, ok := e.cut(dir); ok && whole == j.Dir {
			j.entropy = append(j.entropy, e)
		}
		if dir[offset] != j.Dir[offset] {
			break
		}
	}
	return j.hasEntropyPart(dir)
}

// hasEntropyPart says that a directory is the job's but for random characters where its checkpoints have them.
func (j *AuditJob) hasEntropyPart(dir string) bool {
	return slices.ContainsFunc(j.entropy, func(e entropy) bool {
		whole, ok := e.cut(dir)
		return ok && whole == j.Dir
	})
}
