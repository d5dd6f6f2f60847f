"""Ways to write `git push` that a rule which denies it must not let through, and commands of every day."""

from __future__ import annotations

# One a line; `\n` is a line break.
PUSHES = r"""
git push
git  push
git push origin main --force
/usr/bin/git push
/usr/lib/git-core/git-push
git-push origin
g\it push
'git' push
"git" push
g""it pu''sh
git pu\sh
git "pu"sh
git $'push'
git $'p\x75sh'
git $"push"
$'\147it' push
git pu\\nsh
git \\npush
git {push,origin}
git {push,}
{git,push}
g{i,}t push
git pus?
git p*
git [p]ush
g?t push
/usr/bin/g[i]t push
/usr/bin/gi* push
$X push
git $X
git pu"$X"sh
git $(echo push)
git `echo push`
$(which git) push
${X:-git} push
git ${X:-push}
X=push; git $X
X=git; $X push
X='git push'; $X
X=(git push); "${X[@]}"
set -- git push; "$@"
set push; git "$1"
for x in push; do git $x; done
git -C /tmp push
git -C $X push
git -C "a b" push
git --git-dir=x push
git --git-dir x --work-tree y push
git --no-pager push
git -p push
git -c a.b=c push
git -c alias.x=push x
git -c alias.p='!git push' p
git -c alias.p='!git pu''sh' p
git --config-env=alias.x=X x
git -c core.pager='git push' -p log
git -c core.sshCommand='git push' fetch
git x
git --exec-path=. x
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x
GIT_PAGER='git push' git -p log
GIT_EXTERNAL_DIFF='git push' git diff
EDITOR='git push' git commit
PATH=.:$PATH ls
git config alias.x push; git x
git config core.pager 'git push'
git submodule foreach git push
git submodule foreach 'git push'
git bisect run git push
git rebase -x 'git push' main
git grep -O'git push' x
git send-pack origin
git subtree push
git remote-https origin x
true && git push
false || git push
ls; git push
ls & git push
ls\ngit push
ls | git push
git push | cat
git push > x
> x git push
git > x push
git 2>&1 push
git <<< x push
git < x push --force
git <<E push\nE
git {x}> y push
! git push
{ git push; }
( git push )
if git push; then ls; fi
if true; then git push; fi
while git push; do ls; done
until git push; do ls; done
case x in x) git push;; esac
f() { git push; }; f
function f { git push; }; f
f() { git "$@"; }; f push
f() { $1 push; }; f git
command_not_found_handle() { git push; }; x
coproc git push
coproc X { git push; }
time git push
time -p git push
echo $(git push)
echo `git push`
echo "$(git push)"
echo "`git push`"
cat <(git push)
ls > >(git push)
X=$(git push)
X[$(git push)]=1
export X=$(git push)
echo ${X:-$(git push)}
echo $(( $(git push) ))
[[ $(git push) ]]
[[ -v 'x[$(git push)]' ]]
[[ 'x[$(git push)]' -eq 1 ]]
(( 'x[$(git push)]' ))
let 'x[$(git push)]'
test -v 'x[$(git push)]'
printf -v 'x[$(git push)]' y
unset 'x[$(git push)]'
declare 'x[$(git push)]=1'
X='$(git push)'; echo "${X@P}"
PS4='$(git push)'; set -x; ls
cat <<E\n$(git push)\nE
sh -c 'git push'
bash -c "git push"
bash -lc 'git push'
bash -c -- 'git push'
bash -x -c 'git push'
bash -O extglob -c 'git push'
sh -c 'sh -c "git push"'
sh -c '$0 $1' git push
sh -c 'git $1' x push
sh -c 'git "$@"' x push
sh <<< 'git push'
sh <<E\ngit push\nE
sh -s <<'E'\ngit push\nE
echo 'git push' | sh
echo git push | bash -s
printf 'git push' | sh
cat x | sh
sh x
sh < x
bash <(echo git push)
bash -c "ls\ngit push"
. x
. ./x
source x
. /dev/stdin <<< 'git push'
source /dev/stdin <<< 'git push'
. <(echo git push)
source <(echo git push)
eval git push
eval 'git push'
eval "git" "push"
eval $X
eval "$(echo git push)"
trap 'git push' EXIT
trap "git push" DEBUG; ls
trap -- 'git push' EXIT
eval -- git push
alias g='git push'; g
shopt -s expand_aliases; alias e=git\ne push
hash -p /usr/bin/git g; g push
enable -f x push
complete -C 'git push' x
bind -x '"a": git push'
mapfile -C 'git push' -c 1 x
command git push
command -p git push
builtin eval git push
builtin command git push
exec git push
exec -a x git push
exec -c git push
env git push
env -i git push
env - git push
env A=b git push
env -u A git push
env -C /tmp git push
env -S 'git push'
env -S'git push'
env -iS 'git push'
env --split-string='git push'
env -S 'sh -c "git push"'
sudo git push
sudo -u bob git push
sudo -- git push
sudo -s 'git push'
sudo sh -c 'git push'
doas git push
su -c 'git push'
su bob -c 'git push'
runuser -u bob -- git push
nohup git push
nohup git push &
nice git push
nice -n 5 git push
ionice -c2 git push
setsid git push
setsid -w git push
stdbuf -oL git push
timeout 5 git push
timeout -s KILL 5 git push
timeout --signal KILL 5 git push
watch git push
watch -n 1 'git push'
xargs git push < x
echo push | xargs git
echo git push | xargs -n2 env
echo git | xargs -I{} {} push
echo git | xargs -Ix x push
echo push | xargs -I{} git {}
echo push | xargs -i git {}
echo 'git push' | xargs -0 sh -c
xargs -a x git
find . -exec git push \;
find . -exec git push {} +
find . -exec true \; -exec git push \;
find . -name push -exec git {} \;
find . -execdir git push \;
find . -ok git push \;
find . -exec sh -c 'git push' \;
script -c 'git push'
script -qc 'git push' /dev/null
script -qcgit\ push
script -c "g''it push"
script -c 'g?t push'
script -c 'X=gi; ${X}t push'
parallel git ::: push
parallel ::: 'git push'
echo git push | parallel
ssh localhost git push
ssh localhost 'git push'
flock x git push
flock x -c 'git push'
flock -w 5 x git push
chroot / git push
taskset 1 git push
taskset -c 0 git push
nsenter -t 1 git push
nsenter -t 1 -m -- git push
systemd-run git push
systemd-run --user --pty git push
unshare -r git push
strace git push
strace -f -o x git push
ltrace git push
busybox sh -c 'git push'
chrt 1 git push
setarch x86_64 git push
setpriv --reuid 1 git push
pkexec git push
bwrap --bind / / git push
firejail git push
dbus-run-session git push
xvfb-run -a git push
tmux new -d 'git push'
screen -dm git push
xterm -e git push
expect -c 'spawn git push'
direnv exec . git push
nix-shell --run 'git push'
uv run git push
npm exec -c 'git push'
npx -c 'git push'
docker run x git push
make -f - <<< 'x:;git push'
make --eval 'x:;git push'
printf 'x:;git push' | make -f -
make -f- <<E\nx:\n    git push\nE
printf "x:\\\n\\tgit push" | make -f -
at now <<< 'git push'
crontab - <<< '* * * * * git push'
vim -c '!git push'
ed <<< '!git push'
echo '!git push' | ex x
gdb -ex 'shell git push'
sqlite3 x '.shell git push'
psql -c '\! git push'
awk 'BEGIN{system("git push")}'
awk 'BEGIN{system("g" "it push")}'
awk 'BEGIN{"git push"|getline}'
awk 'BEGIN{c="gi" "t push"; print | c}'
gawk 'BEGIN{f="sys" "tem"; @f("gi" "t push")}'
awk -f x
awk -v 'a=system("git push")' 'BEGIN{system(a)}'
sed '1e git push' x
sed 's/x/git push/e' x
sed 's/^/gi/;s/$/t push/;e' x
sed -e 1e x
sed -f x y
sed 's/.*/git push/\ne' x
sed -e p -e 1e x
sed -n -e '' -e e x
sed p -e 'e git push'
sed -n 's,x,y,ep' x
python3 -c 'import os'
python3 x.py
python3 - <<< 'import os'
perl -e 'system("git push")'
perl x
ruby -e '`git push`'
node -e 'x'
php -r 'x'
lua -e 'os.execute("git push")'
osascript -e 'do shell script "git push"'
m4 <<< 'syscmd(git push)'
m4 x
java X.java
bun x.ts
runhaskell x
escript x
clojure -M x
qjs x
d8 x
bpftrace x
tar cf x --checkpoint=1 --checkpoint-action='exec=git push' y
tar xf x --to-command='git push'
rsync -e 'git push' x y
rsync --rsh='git push' x y
zip x y -T -TT 'git push'
sort --compress-program='git push' x
man -P 'git push' ls
PAGER='git push' man ls
LESSOPEN='|git push' less x
BASH_ENV=x bash -c ls
ENV=x sh -c ls
LD_PRELOAD=./x ls
env PATH=. ls
rg --pre 'git push' x
socat - EXEC:'git push'
nc -e 'git push' x 1
echo 'git push' > x; ./x
cat > x <<E\ngit push\nE\nchmod +x x; ./x
cp /bin/sh x; ./x -c 'git push'
ln -s /usr/bin/git ./g; ./g push
ls # a \\ngit push
echo 'a
echo a; }; git push
git push "
ls << git push
a=b c=d git push
A=1 B="$C" git push
env A=b sudo nice git push
sudo env A=b timeout 5 sh -c 'nice git push'
""".strip("\n").split("\n")

# Nothing of these is asked about where `git push` is denied and commands run unasked.
EVERYDAY = r"""
ls -la
ls *.py
ls -R src | head
cd src && ls
pwd; whoami; date
cat README.md
cat src/*.py | wc -l
head -n 20 a.txt
head -c 100 a.bin | xxd
tail -n 5 "$LOG"
grep -rn 'def main' .
grep -c "foo bar" a.txt
grep -v '^#' /etc/hosts | sort | uniq -c | sort -rn | head
rg -n foo
find . -name '*.py' -newer a.txt
find . -type f -exec wc -l {} +
find . -name '*.pyc' | xargs rm -f
mkdir -p build/{a,b}
touch a.txt b.txt
cp -r src backup
mv a.txt b.txt
rm -rf build node_modules
ln -s a b
chmod +x run.sh
echo "hello $USER" > a.txt
echo 'git push' >> notes.md
printf '%s\n' a b
cat > a.txt <<E\nsome text\nE
diff -u a.txt b.txt
sort a.txt | uniq
wc -l < a.txt
sed -n '1,20p' a.txt
sed -i 's/foo/bar/g' a.txt
sed 's/a$/b/; s|x|y|' a.txt
sed -n '/foo/p' a.txt
sed -e 's/a/b/' -e 's/c/d/' a.txt
awk '{print $1}' a.txt
awk -F, '$2 > 5 {s += $3} END {print s}' a.csv
awk -F , -v n=1 '{ print $n }' a.csv
jq -r '.items[] | .name' a.json
test -f a.txt && echo yes || echo no
[ -d build ] || mkdir build
if [ -f a ]; then cat a; fi
for f in *.txt; do echo "$f"; done
X=5; echo $X
VERSION=$(cat VERSION); echo "$VERSION"
X="$Y" make
[ -n "$X" ] && echo a
if [ "$X" = "a b" ]; then ls; fi
echo a > "$OUT"
cat > a.py <<'E'\nprint(f"{x}")\nE
git status
git status -s && git diff --stat
git log --oneline -5
git diff HEAD~1 -- src
git add -A && git commit -m 'fix the push of buttons'
git commit -m "$(cat message)"
git add *.py
git checkout -b feature/push
git stash push
git pull --rebase
git fetch origin
git branch -D old
git merge main
git rebase main
git clone https://example.org/x.git
git config user.name Ada
git -C sub status
make
make -j4 test
make test 2>&1 | tail -5
npm install
npm run build
npm test -- --watch=false
cargo build --release
cargo test
go test ./...
pytest -q tests
pytest -k 'one and two'
ruff check .
mypy src
pip install -r requirements.txt
docker build -t app .
docker compose up -d
curl -s https://example.org/x.json
curl -H 'Accept: a/b' -d '{"a": 1}' https://example.org
tar xzf a.tar.gz
unzip a.zip
du -sh .
ps aux | head
kill 123
sleep 1
time make
timeout 60 make test
nice -n 5 make
gh pr list
which git
command -v git
if command -v node >/dev/null; then echo yes; fi
""".strip("\n").split("\n")
