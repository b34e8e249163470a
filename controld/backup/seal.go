package backup

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// Keys are the files that make the controller that wrote a backup one of the cluster, by name.
type Keys struct {
	Files map[string][]byte `json:"files"`
}

// Parameters of the key that a passphrase makes.
const (
	kdfRounds    = 600_000 // of PBKDF2 with SHA-256, as OWASP recommends since 2023: half a second here
	kdfRoundsMax = 100_000_000
	saltSize     = 16
	// PassphraseMin is the least number of bytes of a passphrase.
	PassphraseMin = 12
)

// ErrPassphrase says that the keys cannot be opened.
var ErrPassphrase = errors.New("the passphrase is wrong, or the keys in the backup were changed")

// sealed is the form of sealed keys: AES-256-GCM under a key that PBKDF2 makes of the passphrase.
type sealed struct {
	KDF    string `json:"kdf"`
	Rounds int    `json:"rounds"`
	Salt   []byte `json:"salt"`
	Nonce  []byte `json:"nonce"`
	Box    []byte `json:"box"`
}

const kdfName = "pbkdf2-sha256/aes-256-gcm"

// Seal encrypts keys for one cluster.
func Seal(k Keys, cluster, passphrase string) ([]byte, error) {
	if len(passphrase) < PassphraseMin {
		return nil, fmt.Errorf("the passphrase has %d bytes: take %d or more", len(passphrase), PassphraseMin)
	}
	s := sealed{KDF: kdfName, Rounds: kdfRounds, Salt: make([]byte, saltSize)}
	rand.Read(s.Salt) // never fails
	aead, err := s.cipher(passphrase)
	if err != nil {
		return nil, err
	}
	s.Nonce = make([]byte, aead.NonceSize())
	rand.Read(s.Nonce)
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	s.Box = aead.Seal(nil, s.Nonce, text, []byte(cluster))
	return json.Marshal(s)
}

// Unseal decrypts what Seal has made.
func Unseal(text []byte, cluster, passphrase string) (k Keys, err error) {
	var s sealed
	if err := json.Unmarshal(text, &s); err != nil || s.KDF != kdfName || s.Rounds < 1 || s.Rounds > kdfRoundsMax {
		return k, fmt.Errorf("%w: its keys are encrypted in an unknown format", ErrNotABackup)
	}
	aead, err := s.cipher(passphrase)
	if err != nil {
		return k, err
	}
	if len(s.Nonce) != aead.NonceSize() {
		return k, ErrPassphrase
	}
	plain, err := aead.Open(nil, s.Nonce, s.Box, []byte(cluster))
	if err != nil {
		return k, ErrPassphrase
	}
	return k, json.Unmarshal(plain, &k)
}

func (s *sealed) cipher(passphrase string) (cipher.AEAD, error) {
	key, err := pbkdf2.Key(sha256.New, passphrase, s.Salt, s.Rounds, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
