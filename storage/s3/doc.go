// Package s3 is storage in S3 buckets: those of AWS, and those of servers that speak its protocol.
package s3
