"""The forms of irregular words, which no stemming joins: gave and give, feet and foot, zog and ziehen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

_ENGLISH = """
    arise arose arisen, awake awoke awoken, bear bore borne, become became, begin began begun, bend bent,
    bite bit bitten, bleed bled, blow blew blown, break broke broken, breed bred, bring brought, build built,
    burn burnt, buy bought, catch caught, choose chose chosen, cling clung, creep crept, deal dealt,
    dig dug, draw drew drawn, dream dreamt, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen,
    feed fed, feel felt, fight fought, flee fled, fly flew flown flies, forbid forbade forbidden,
    forget forgot forgotten, forgive forgave forgiven, freeze froze frozen, give gave given, go went gone goes,
    grow grew grown, hang hung, hear heard, hide hid hidden, hold held, keep kept, kneel knelt, know knew known,
    lay laid, lead led, lean leant, leap leapt, learn learnt, leave left, lend lent, lie lay lain lying, light lit,
    lose lost, mean meant, meet met, mow mown, overcome overcame, oversee oversaw overseen, pay paid, prove proven,
    rebuild rebuilt, repay repaid, retell retold, rewrite rewrote rewritten, ride rode ridden, ring rang rung,
    rise rose risen, run ran, see saw seen, seek sought, sell sold, send sent, sew sewn, shake shook shaken,
    shine shone, shoot shot, show shown, shrink shrank shrunk, sing sang sung, sink sank sunk, sit sat, sleep slept,
    slide slid, sow sown, speak spoke spoken, spell spelt, spend spent, spill spilt, spin spun, spoil spoilt,
    spring sprang sprung, stand stood, steal stole stolen, stick stuck, sting stung, stink stank stunk, strike struck,
    strive strove striven, swear swore sworn, sweep swept, swell swollen, swim swam swum, swing swung,
    take took taken, teach taught, tear tore torn, think thought, throw threw thrown, tread trod trodden,
    understand understood, undertake undertook undertaken, undo undid undone, wake woke woken, wear wore worn,
    weave wove woven, weep wept, win won, wind wound, withdraw withdrew withdrawn, write wrote written, calf calves,
    child children, die dying, foot feet, goose geese, half halves, knife knives, leaf leaves, loaf loaves, man men,
    mouse mice, ox oxen, shelf shelves, thief thieves, tooth teeth, wife wives, wolf wolves, woman women
"""
_GERMAN = """
    beginnen begann begonnen, beißen biss gebissen, bieten bot geboten, binden band gebunden, bitten bat gebeten,
    blasen bläst blies geblasen, bleiben blieb geblieben, brechen bricht brach gebrochen, brennen brannte gebrannt,
    bringen brachte gebracht, denken dachte gedacht, dürfen darf durfte, empfehlen empfiehlt empfahl empfohlen,
    essen isst aß gegessen, fahren fährt fuhr gefahren, fallen fällt fiel gefallen, fangen fängt fing gefangen,
    finden fand gefunden, fliegen flog geflogen, fließen floss geflossen, fressen frisst fraß gefressen,
    frieren fror gefroren, geben gibt gab gegeben, gehen geht ging gegangen, gelingen gelang gelungen,
    gelten gilt galt gegolten, gewinnen gewann gewonnen, gießen goss gegossen, graben gräbt grub gegraben,
    greifen griff gegriffen, halten hält hielt gehalten, hängen hing gehangen, heben hob gehoben,
    heißen hieß geheißen, helfen hilft half geholfen, kennen kannte gekannt, klingen klang geklungen,
    kommen kam gekommen, laden lädt lud geladen, lassen lässt ließ gelassen, laufen läuft lief gelaufen,
    leiden litt gelitten, leihen lieh geliehen, lesen liest las gelesen, liegen lag gelegen, lügen log gelogen,
    messen misst maß gemessen, nehmen nimmt nahm genommen, nennen nannte genannt, raten rät riet geraten,
    reißen riss gerissen, reiten ritt geritten, rennen rannte gerannt, riechen roch gerochen, rufen rief gerufen,
    scheinen schien geschienen, schieben schob geschoben, schießen schoss geschossen,
    schlafen schläft schlief geschlafen, schlagen schlägt schlug geschlagen, schließen schloss geschlossen,
    schmelzen schmilzt schmolz geschmolzen, schneiden schnitt geschnitten, schreiben schrieb geschrieben,
    schreien schrie geschrien, schweigen schwieg geschwiegen, schwimmen schwamm geschwommen, sehen sieht sah gesehen,
    senden sandte gesandt, singen sang gesungen, sinken sank gesunken, sitzen saß gesessen,
    sprechen spricht sprach gesprochen, springen sprang gesprungen, stechen sticht stach gestochen,
    stehen stand gestanden, stehlen stiehlt stahl gestohlen, steigen stieg gestiegen, sterben stirbt starb gestorben,
    streichen strich gestrichen, streiten stritt gestritten, tragen trägt trug getragen,
    treffen trifft traf getroffen, treiben trieb getrieben, treten tritt trat getreten, trinken trank getrunken,
    tun tat getan, verderben verdirbt verdarb verdorben, vergessen vergisst vergaß, verlieren verlor verloren,
    verschwinden verschwand verschwunden, wachsen wächst wuchs gewachsen, waschen wäscht wusch gewaschen,
    weisen wies gewiesen, werfen wirft warf geworfen, wiegen wog gewogen, wissen weiß wusste gewusst,
    ziehen zog gezogen, zwingen zwang gezwungen
"""
_SPANISH = """
    abrir abierto, caer cayó, cerrar cierra cierran, contar cuenta cuentan, costar cuesta cuestan, dar dio,
    decir dice dijo dicho, doler duele duelen, dormir duerme durmió, elegir elige eligió, empezar empieza,
    encontrar encuentra, escribir escrito, hacer hace hizo hecho, jugar juega juegan, leer leyó, llover llueve,
    morir muere murió muerto, mostrar muestra, mover mueve, pedir pide piden pidió, pensar piensa, perder pierde,
    poder puede pudo, poner pone puso puesto, preferir prefiere, probar prueba, querer quiere quiso,
    recordar recuerda, romper roto, saber sabe supo, seguir sigue siguió, sentir siente sintió, servir sirve sirvió,
    soñar sueña, tener tiene tuvo, traer trae trajo, venir viene vino, ver vio visto, vestir viste, volar vuela,
    volver vuelve vuelto
"""
_FRENCH = """
    boire boit bu, conduire conduit, connaître connaît connu, construire construit, courir court couru,
    croire croit cru, devoir doit, dire dit, écrire écrit, faire fait, lire lit lu, mettre met mis, mourir meurt mort,
    naître né, offrir offert, ouvrir ouvert, peindre peint, plaire plaît plu, pouvoir peut, prendre prend pris,
    promettre promet promis, apprendre apprend appris, comprendre comprend compris, recevoir reçoit reçois reçu,
    savoir sait, tenir tient tenu, venir vient venu, devenir devient devenu, obtenir obtient obtenu, vivre vit vécu,
    voir voit vu, vouloir veut voulu
"""
_TABLES = {"en": _ENGLISH, "de": _GERMAN, "es": _SPANISH, "fr": _FRENCH}
_PREFIXES = """
    ab an auf aus be bei durch ein ent er fest fort frei ge her hin los mit nach statt teil über um unter ver vor weg
    weiter wieder zer zu zurück zusammen
"""
_SEPARABLE = frozenset(_PREFIXES.split()) - {"be", "ent", "er", "ge", "ver", "zer"}
_SHORTEST = 3


def irregular_forms(word: str, language: str) -> tuple[str, ...]:
    """The other forms of `word` (in lower case) in a `language` that has a table here; empty if it is regular.

    Left out is what is formed as of regular words.
    """
    forms = _forms(language).get(word) or (_with_prefix(word) if language == "de" else ())
    return tuple(form for form in forms if form != word)


@cache
def _forms(language: str) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in _TABLES.get(language, "").split(","):
        forms = tuple(line.split())
        for form in forms:
            # One form of two words (lay) stands for both.
            found[form] = (*found.get(form, ()), *forms)
    return found


def _with_prefix(word: str) -> tuple[str, ...]:
    """The forms of a German verb with a prefix (bezog, ausgezogen)."""
    for prefix in _PREFIXES.split():
        rest = word.removeprefix(prefix)
        if rest == word or len(rest) < _SHORTEST:
            continue
        if forms := _forms("de").get(rest) or _forms("de").get(f"ge{rest}"):
            *others, participle = forms
            # ausgeben: ausgegeben, but bekommen: bekommen.
            last = participle if prefix in _SEPARABLE else participle.removeprefix("ge")
            return tuple(prefix + form for form in (*others, last))
    return ()
