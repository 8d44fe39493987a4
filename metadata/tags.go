package metadata

import "fmt"

// magic begins every _metadata file, masterMagic every master state.
const (
	magic       = 0x4960672D
	masterMagic = int32(-0x3694e96a) // 0xC96B1696
)

// Version is the number in the header of a _metadata file.
type Version int32

// The versions that can be read and written.
const (
	Version1 Version = 1 // Flink 1.2
	Version2 Version = 2 // Flink 1.3 to 1.10
	Version3 Version = 3 // Flink 1.11 to 1.15
	Version4 Version = 4 // Flink 1.16 to 1.20
	Version5 Version = 5 // Flink 2.0
	Version6 Version = 6 // Flink 2.1 and later
)

// Writers says which releases of Flink write the version.
func (v Version) Writers() string {
	switch v {
	case 0:
		return "1.1"
	case Version1:
		return "1.2"
	case Version2:
		return "1.3 to 1.10"
	case Version3:
		return "1.11 to 1.15"
	case Version4:
		return "1.16 to 1.20"
	case Version5:
		return "2.0"
	case Version6:
		return "2.1 to 2.3"
	}
	return "unknown"
}

// Readers says which releases of Flink can read the version.
func (v Version) Readers() string {
	switch v {
	case 0:
		return "1.1 to 1.3"
	case Version1:
		return "1.2 to 1.10"
	case Version2:
		return "1.3 and later"
	case Version3:
		return "1.11 and later"
	case Version4:
		return "1.16 and later"
	case Version5:
		return "2.0 and later"
	case Version6:
		return "2.1 and later"
	}
	return "unknown"
}

// Dialect is one of the layouts that share version 3.
type Dialect uint8

// The dialects of version 3; other versions have only the first.
const (
	DialectStandard Dialect = iota
	// Dialect111 is Flink 1.11's: channel state does not say its subtask.
	Dialect111
	// Dialect114 is Flink 1.14's: changelog handles have fewer fields.
	Dialect114
)

// String names the dialect.
func (d Dialect) String() string {
	switch d {
	case DialectStandard:
		return "standard"
	case Dialect111:
		return "1.11"
	case Dialect114:
		return "1.14"
	}
	return fmt.Sprintf("dialect %d", uint8(d))
}

// Tag is the byte before a handle that says what it is; the numbers are those
// of Flink's MetadataV2V3SerializerBase.
type Tag byte

// The tags. One number space, but each is legal in one position only; 3 in two.
const (
	TagNull               Tag = 0
	TagByteStream         Tag = 1
	TagFile               Tag = 2
	TagKeyGroups          Tag = 3
	TagOperatorState      Tag = 4
	TagIncremental        Tag = 5
	TagRelativeFile       Tag = 6
	TagSavepointKeyGroups Tag = 7
	TagChangelog          Tag = 8
	TagChangelogMemory    Tag = 9
	TagChangelogFile      Tag = 10
	TagIncrementalV2      Tag = 11
	TagKeyGroupsV2        Tag = 12
	TagChangelogFileV2    Tag = 13
	TagChangelogV2        Tag = 14
	TagSegment            Tag = 15
	TagEmptySegment       Tag = 16
	TagMergedOperator     Tag = 17
)

// Tags of channel state in version 6, a number space of its own.
const (
	channelInput        = 1
	channelOutput       = 2
	channelMergedInput  = 3
	channelMergedOutput = 4
)

// Smallest encodings in bytes, by which counts are checked before anything is allocated.
const (
	minMaster       = 18
	minOperatorV1   = 32
	minOperatorV3   = 29
	minOperatorV5   = 33
	minSubtaskV1    = 26
	minSubtaskV3    = 4
	minChannel111   = 21
	minChannel      = 25
	minChannelV6    = 18
	minMergedEntry  = 20
	minLocalFile    = 3
	minStateOffsets = 7
	minStateChange  = 8
	minChangelogIn  = 9
	minHandle       = 1
)

// maxNesting bounds handles in handles, so that input can't exhaust the stack.
const maxNesting = 4

// maxBelieved is how many elements a list may have at most for a file that
// ends within it to pass for one that was cut, not for one with a wrong count.
const maxBelieved = 1 << 20

// Tag gives [TagByteStream].
func (*ByteStream) Tag() Tag { return TagByteStream }

// Tag gives [TagFile].
func (*File) Tag() Tag { return TagFile }

// Tag gives [TagRelativeFile].
func (*RelativeFile) Tag() Tag { return TagRelativeFile }

// Tag gives [TagSegment].
func (*Segment) Tag() Tag { return TagSegment }

// Tag gives [TagEmptySegment].
func (*EmptySegment) Tag() Tag { return TagEmptySegment }

// Tag gives [TagKeyGroups].
func (*KeyGroupsStream) Tag() Tag { return TagKeyGroups }

// Tag gives the tag of the form.
func (h *KeyGroups) Tag() Tag {
	switch h.Form {
	case KeyGroupsV1:
		return TagKeyGroups
	case KeyGroupsSavepoint:
		return TagSavepointKeyGroups
	}
	return TagKeyGroupsV2
}

// Tag gives [TagIncremental] or [TagIncrementalV2].
func (h *Incremental) Tag() Tag {
	if h.V1 {
		return TagIncremental
	}
	return TagIncrementalV2
}

// Tag gives [TagChangelog] or [TagChangelogV2].
func (h *Changelog) Tag() Tag {
	if h.V1 {
		return TagChangelog
	}
	return TagChangelogV2
}

// Tag gives [TagChangelogMemory].
func (*ChangelogMemory) Tag() Tag { return TagChangelogMemory }

// Tag gives [TagChangelogFile] or [TagChangelogFileV2].
func (h *ChangelogFile) Tag() Tag {
	if h.V1 {
		return TagChangelogFile
	}
	return TagChangelogFileV2
}

// Tag gives [TagOperatorState] or [TagMergedOperator].
func (h *OperatorState) Tag() Tag {
	if h.Merged != nil {
		return TagMergedOperator
	}
	return TagOperatorState
}

func (*ByteStream) isStream()      {}
func (*File) isStream()            {}
func (*RelativeFile) isStream()    {}
func (*Segment) isStream()         {}
func (*EmptySegment) isStream()    {}
func (*KeyGroupsStream) isStream() {}
func (*KeyGroups) isKeyed()        {}
func (*Incremental) isKeyed()      {}
func (*Changelog) isKeyed()        {}
func (*ChangelogMemory) isKeyed()  {}
func (*ChangelogFile) isKeyed()    {}
